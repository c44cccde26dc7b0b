// Plays transcripts, each against its own server process.

import { type ServerKind, type ServerProcess, startServer } from "../server/server-process.ts";
import { runTranscript } from "./run-transcript.ts";
import { SocketDriver } from "./socket-driver.ts";
import type { Transcript } from "./transcript.ts";

const ATTEMPTS = 6;
const LATE_MS = 120;

/** A transcript, and the flags of its server besides its own. */
export interface Play {
  readonly transcript: Transcript;
  readonly flags: readonly string[];
}

export interface Outcome {
  readonly error?: unknown;
  /** Delay of the playback, over all steps. */
  readonly lateMs: number;
}

export async function playTranscript(
  transcript: Transcript,
  kind: ServerKind,
  flags: readonly string[],
): Promise<void> {
  const play = { transcript, flags };
  const outcome = (await playTogether([play], kind)).get(play);
  if (outcome?.error !== undefined) throw outcome.error;
}

/**
 * Starts all servers, then plays all transcripts at once, since starting takes the processor and
 * playing mostly waits.
 *
 * A run that fails while its steps took much longer than they should says nothing, since a
 * transcript's seconds are real ones: it is played again, some times. A run that fails while the
 * machine kept up has failed.
 */
export async function playTogether(
  plays: readonly Play[],
  kind: ServerKind,
): Promise<ReadonlyMap<Play, Outcome>> {
  const outcomes = new Map<Play, Outcome>();
  let left = plays;
  for (let attempt = 1; attempt <= ATTEMPTS && left.length > 0; attempt++) {
    const started = await Promise.all(
      left.map(async (play) => ({
        play,
        server: await startServer({ kind, flags: [...play.transcript.flags, ...play.flags] }),
      })),
    );
    await Promise.all(
      started.map(async ({ play, server }) => outcomes.set(play, await run(play.transcript, server))),
    );
    left = left.filter((play) => wasTooLate(outcomes.get(play)));
    const names = left.map(
      (play) => `${play.transcript.name} (${Math.round(outcomes.get(play)?.lateMs ?? 0)} ms late)`,
    );
    if (left.length > 0 && attempt < ATTEMPTS)
      console.error(`the machine was too slow, again: ${names.join(", ")}`);
  }
  return outcomes;
}

/** Returns whether a transcript depends on real time. */
export const takesTime = (transcript: Transcript): boolean => waitMs(transcript) > 0;

/** The waits of a transcript, all together. */
export function waitMs({ steps }: Transcript): number {
  return steps.reduce((sum, step) => sum + (step.kind === "wait" ? step.ms : 0), 0);
}

function wasTooLate(outcome: Outcome | undefined): boolean {
  return outcome?.error !== undefined && outcome.lateMs > LATE_MS;
}

async function run(transcript: Transcript, server: ServerProcess): Promise<Outcome> {
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
