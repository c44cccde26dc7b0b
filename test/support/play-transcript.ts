// Plays transcripts, each against a server process of its own.

import { runTranscript } from "./run-transcript.ts";
import { type ServerKind, type ServerProcess, startServer } from "./server-process.ts";
import { SocketDriver } from "./socket-driver.ts";
import type { Transcript } from "./transcript.ts";

const ATTEMPTS = 6;
const LATE_MS = 120;

export interface Outcome {
  readonly error?: unknown;
  /** How much longer than it should the playing took, all steps together. */
  readonly lateMs: number;
}

export async function playTranscript(
  transcript: Transcript,
  kind: ServerKind,
  flags: readonly string[],
): Promise<void> {
  const outcomes = await playTogether([transcript], kind, flags);
  const outcome = outcomes.get(transcript);
  if (outcome?.error !== undefined) throw outcome.error;
}

/**
 * Starts all servers, then plays all transcripts at once, since starting takes the processor and playing mostly waits.
 *
 * A run that fails while its steps took much longer than they should says nothing, since a transcript's seconds are real ones:
 * it is played again, some times. A run that fails while the machine kept up has failed.
 */
export async function playTogether(
  transcripts: readonly Transcript[],
  kind: ServerKind,
  flags: readonly string[],
): Promise<ReadonlyMap<Transcript, Outcome>> {
  const outcomes = new Map<Transcript, Outcome>();
  let left = transcripts;
  for (let attempt = 1; attempt <= ATTEMPTS && left.length > 0; attempt++) {
    const started = await Promise.all(
      left.map(async (transcript) => ({
        transcript,
        server: await startServer({ kind, flags: [...transcript.flags, ...flags] }),
      })),
    );
    await Promise.all(
      started.map(async ({ transcript, server }) => outcomes.set(transcript, await play(transcript, server))),
    );
    left = left.filter((transcript) => wasTooLate(outcomes.get(transcript)));
    const names = left.map(
      (transcript) => `${transcript.name} (${Math.round(outcomes.get(transcript)?.lateMs ?? 0)} ms late)`,
    );
    if (left.length > 0 && attempt < ATTEMPTS)
      console.error(`the machine was too slow, again: ${names.join(", ")}`);
  }
  return outcomes;
}

/** Whether a transcript depends on real time. */
export function takesTime(transcript: Transcript): boolean {
  return transcript.steps.some((step) => step.kind === "wait");
}

function wasTooLate(outcome: Outcome | undefined): boolean {
  return outcome?.error !== undefined && outcome.lateMs > LATE_MS;
}

async function play(transcript: Transcript, server: ServerProcess): Promise<Outcome> {
  const driver = new SocketDriver(server);
  try {
    await runTranscript(transcript, driver);
    if (server.hasExited) throw new Error(`${transcript.path}: the server is gone\n${server.stderr}`);
    return { lateMs: driver.lateMs };
  } catch (error) {
    return { error, lateMs: driver.lateMs };
  } finally {
    driver.closeAll();
    await server.stop();
  }
}
