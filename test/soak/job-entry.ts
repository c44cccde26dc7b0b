// Entry of the ledger for one job: what was put, its possible states, and its possible holders.

import type { BodySpec } from "./soak-body.ts";

/** A state of an unreserved job. */
export interface Rest {
  readonly kind: "ready" | "delayed" | "buried";
  readonly pri: number;
  /**
   * Time at which the command that led here was sent, ms; a kick that was answered before that
   * cannot have changed it.
   */
  readonly sinceMs: number;
  readonly delayMs: number;
  /** Delayed jobs: the earliest and the latest moment of the delay's end, ms of our clock. */
  earliestMs: number;
  latestMs: number;
}

/**
 * A client has the job. It was given at some moment up to `seenMs`, and not taken back before
 * `endMs`: the client's own command, the end of its connection, the TTR or the server's end,
 * whichever can have come first. Both are on the safe side, so two holds that overlap are a fault
 * of the server's and never of the order in which replies were read.
 */
export interface Hold {
  readonly client: string;
  seenMs: number;
  endMs: number;
}

/** No order of the two fits what was seen. */
export function overlap(one: Hold, other: Hold): boolean {
  return one.endMs > other.seenMs && other.endMs > one.seenMs;
}

/** Span of commands that may each have kicked a job. */
export class Kicks {
  #open = 0;
  #lastMs = Number.NEGATIVE_INFINITY;

  begin(): void {
    this.#open++;
  }

  end(nowMs: number): void {
    this.#open--;
    this.#lastMs = nowMs;
  }

  /** No client is left; what was not answered has been carried out or never will be. */
  settle(nowMs: number): void {
    if (this.#open === 0) return;
    this.#open = 0;
    this.#lastMs = nowMs;
  }

  mayHaveChanged(rest: Rest): boolean {
    return this.#open > 0 || this.#lastMs >= rest.sinceMs;
  }
}

export class JobEntry {
  readonly id: number;
  readonly body: BodySpec;
  /**
   * The earliest moment of its put, ms of our clock. It moves if the log's clock does over a
   * restart.
   */
  putMs: number;
  /** Time at which its put was acknowledged, ms, or Infinity. */
  acknowledgedMs: number = Number.POSITIVE_INFINITY;
  rests: Rest[];
  /** States that may last. */
  holds: Hold[] = [];
  /** Deletes sent without a known answer. */
  deletesOpen = 0;
  /** Time at which the reply to a delete was read, ms; Infinity for a live job. */
  deletedMs: number = Number.POSITIVE_INFINITY;
  /** State changes sent by holders; only the last one's answer says where the job rests. */
  changes = 0;
  readonly kicks = new Kicks();
  readonly history: string[] = [];

  constructor(id: number, { body, putMs, rests }: Pick<JobEntry, "body" | "putMs" | "rests">) {
    this.id = id;
    this.body = body;
    this.putMs = putMs;
    this.rests = [...rests];
  }

  get isDeleted(): boolean {
    return this.deletedMs < Number.POSITIVE_INFINITY;
  }

  /** One more state in which it may be found. */
  mayRest(rest: Rest): void {
    const known = this.rests.some(
      (other) => other.kind === rest.kind && other.pri === rest.pri && rest.kind !== "delayed",
    );
    if (!known) this.rests.push(rest);
  }
}
