// What a run says: whether each variant of a case reaches its required share of the default, and
// how the first server compares with the second in a sentence.
import { type CaseOutcome, ratioTo } from "./outcome.ts";

interface Verdict {
  readonly isGood: boolean;
  readonly text: string;
}

/** One for each variant of each case that has any. A variant without a figure is no good. */
export function verdicts(outcomes: readonly CaseOutcome[]): Verdict[] {
  return outcomes.flatMap((outcome) => {
    const { variants, title } = outcome.benchCase;
    if (variants === undefined) return [];
    return outcome.servers.slice(1).map(({ server }, index) => {
      const ratio = ratioTo(outcome, index + 1);
      // The ratio is the default's to the variant; shown is the variant's to the default.
      const isGood = ratio !== undefined && ratio <= 1 / variants.shareMin;
      const figure = ratio === undefined ? "has no figure" : `${(1 / ratio).toFixed(3)} x the default`;
      const word = isGood ? "good" : `TOO SLOW, must reach ${variants.shareMin} x`;
      return { isGood, text: `${title}: ${server}: ${figure}: ${word}` };
    });
  });
}

/**
 * Says over all rows with a rate how fast the first server is beside the second and what CPU it
 * takes, and names the rows in which it is slower. Empty if there is nothing to compare.
 */
export function conclusion(outcomes: readonly CaseOutcome[]): string {
  const compared = outcomes.flatMap((outcome) => {
    const { headline, title } = outcome.benchCase;
    const speed = ratioTo(outcome, 1);
    const [ours, theirs] = outcome.servers.map(({ spreads }) => spreads.cpuPerCommand?.median);
    if (headline !== "commandsPerSecond" || speed === undefined || !ours || !theirs) return [];
    return [{ title, speed, cpu: ours / theirs }];
  });
  if (compared.length === 0) return "";
  const [ours, theirs] = outcomes[0]!.servers.map(({ server }) => server);
  const speeds = rangeText(compared.map(({ speed }) => speed));
  const cpus = rangeText(compared.map(({ cpu }) => cpu));
  const slower = compared.filter(({ speed }) => speed < 1).map(({ title }) => title);
  const end = slower.length === 0 ? "it is slower in none" : `it is slower in ${slower.join("; ")}`;
  const rows = compared.length === 1 ? "this row" : `these ${compared.length} rows`;
  return `On this machine and in ${rows}, ${ours} has ${speeds} times the speed of ${theirs} and takes ${cpus} times its CPU per command; ${end}.`;
}

/** Formats "0.86 to 4.39", or one figure if all are the same. */
export function rangeText(values: readonly number[]): string {
  const ends = [Math.min(...values), Math.max(...values)].map((value) => value.toFixed(2));
  return ends[0] === ends[1] ? ends[0]! : ends.join(" to ");
}
