// Phases of a fail-over, from the lines that the new primary logs.

/** Each phase ends with a line that holds these words. */
const PHASES = [
  ["notices", "tries to take the lead"],
  ["takes the lead", "has the lead"],
  ["loads the jobs", "are back from"],
  ["listens", "serves on"],
] as const;

export const PHASE_NAMES: readonly string[] = [...PHASES.map(([name]) => name), "answers a put"];

/**
 * How long each phase took, ms. `output`: lines of the new primary since the kill at `fromMs` (wall
 * clock), until a put was answered at `toMs`. Undefined if it did not say all: another server was
 * first.
 */
export function failOverPhases(output: string, fromMs: number, toMs: number): number[] | undefined {
  const lines = output.split("\n").filter((line) => line.startsWith("{"));
  const said = lines.map((line) => JSON.parse(line) as { time: string; msg: string });
  const phases: number[] = [];
  let lastMs = fromMs;
  for (const [, words] of PHASES) {
    // The last try is the one that counts.
    const line = said.findLast(({ msg }) => msg.includes(words));
    if (line === undefined) return undefined;
    const atMs = Date.parse(line.time);
    phases.push(atMs - lastMs);
    lastMs = atMs;
  }
  // The line comes after the first clients may have been served.
  return [...phases, Math.max(0, toMs - lastMs)];
}
