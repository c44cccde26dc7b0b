// What the ledger knows of the log's clock, which the ends of delays follow over a restart:
// src/binlog/live/log-clock.ts.
//
// While a server runs, the log's clock keeps its distance to ours, whatever the wall clock does.
// The next server goes on from the last lead of the wall clock that was noted: its log's clock is
// ahead of ours by as much more as its wall clock has gained since that note.

import type { Rest } from "./job-entry.ts";

/** From the lowest to the highest, ms. */
interface Range {
  readonly lowMs: number;
  readonly highMs: number;
}

/** Time between two looks of the server at its wall clock, ms. */
const LOOK_MS = 1000;
/** The server does not note a smaller step, ms. */
const UNNOTED_MS = 100;
/** Fraction of a second that a restored delay may last longer than its whole seconds, ms. */
const FRACTION_MS = 999;
/** More alternatives become one, from the earliest end to the latest. */
const ALTERNATIVES_MAX = 8;

export class LedgerClock {
  /** Lead of the wall clock that the log may have noted last; the newest one comes last. */
  #noted: Range[] = [{ lowMs: 0, highMs: 0 }];
  /** A look at or after this moment sees the wall clock as it is. */
  #lookMs = Number.POSITIVE_INFINITY;
  /** When a put was answered that was sent after that, or Infinity. */
  #tookMs = Number.POSITIVE_INFINITY;
  /** When the last server ended, after all its puts. */
  #endedMs = Number.NEGATIVE_INFINITY;

  /** The wall clock was set while the server runs, and is ahead of ours by that much now. */
  stepped(wallOffsetMs: number, nowMs: number): void {
    this.#noted.push({ lowMs: wallOffsetMs, highMs: wallOffsetMs });
    this.#awaitLook(nowMs);
  }

  /**
   * The log has taken a put that was sent at `sentMs` and answered at `nowMs`. It looks at its wall
   * clock when it takes records and a look is due, so it has looked once it takes a put that
   * was sent after another one was answered. `hasRoom`: the look was noted, too.
   */
  putTaken(sentMs: number, nowMs: number, hasRoom: boolean): void {
    if (!hasRoom) this.#awaitLook(nowMs);
    else if (sentMs >= this.#tookMs) this.#looked();
    else if (sentMs >= this.#lookMs) this.#tookMs = Math.min(this.#tookMs, nowMs);
  }

  /** The server has ended. It looks once more if it ends in order. */
  ended(nowMs: number, inOrder: boolean): void {
    if (inOrder) this.#looked();
    this.#endedMs = nowMs;
  }

  /**
   * A server has started at some time in `startMs`, with a wall clock that is ahead of ours by
   * `wallOffsetMs`. `newestMs`: when the newest job was put that the log has for sure. Returns how
   * far its log's clock may have gone ahead meanwhile, beside ours.
   */
  started(wallOffsetMs: number, startMs: Range, newestMs: number): readonly Range[] {
    const noted: Range[] = [];
    const gone = this.#noted.map(({ lowMs, highMs }) => {
      const wall = { lowMs: wallOffsetMs - highMs, highMs: wallOffsetMs - lowMs };
      // The log's clock does not show a time before its newest job, which was put before the end.
      const leastMs = { lowMs: newestMs - startMs.highMs, highMs: this.#endedMs - startMs.lowMs };
      const range = {
        lowMs: Math.max(wall.lowMs, leastMs.lowMs) - UNNOTED_MS,
        highMs: Math.max(wall.highMs, leastMs.highMs) + UNNOTED_MS,
      };
      if (wall.lowMs < leastMs.highMs)
        noted.push({ lowMs: wallOffsetMs, highMs: highMs + Math.max(wall.highMs, leastMs.highMs) });
      return range;
    });
    this.#noted = [...noted, { lowMs: wallOffsetMs, highMs: wallOffsetMs }];
    if (noted.length > 0) this.#awaitLook(startMs.highMs);
    this.#endedMs -= Math.min(...gone.map(({ lowMs }) => lowMs));
    return gone;
  }

  #awaitLook(nowMs: number): void {
    this.#lookMs = nowMs + LOOK_MS;
    this.#tookMs = Number.POSITIVE_INFINITY;
  }

  #looked(): void {
    this.#noted = this.#noted.slice(-1);
    this.#lookMs = this.#tookMs = Number.POSITIVE_INFINITY;
  }
}

/** Returns how a job may rest after a start at `startMs`, for which the log's clock went ahead. */
export function restsAfter(rests: readonly Rest[], gone: readonly Range[], startMs: Range): Rest[] {
  const others = rests.filter(({ kind }) => kind !== "delayed");
  const delayed = rests.filter(({ kind }) => kind === "delayed");
  const moved = delayed.flatMap((rest) => gone.map((range) => movedBy(rest, range, startMs)));
  if (moved.length <= ALTERNATIVES_MAX) return [...others, ...moved];
  const alike = Map.groupBy(moved, ({ pri, delayMs }) => `${pri} ${delayMs}`);
  return [...others, ...[...alike.values()].map(joined)];
}

/** No more of a delay remains than was asked for. */
function movedBy(rest: Rest, { lowMs, highMs }: Range, startMs: Range): Rest {
  return {
    ...rest,
    earliestMs: Math.min(rest.earliestMs - highMs, startMs.lowMs + rest.delayMs),
    latestMs: Math.min(rest.latestMs - lowMs, startMs.highMs + rest.delayMs + FRACTION_MS),
  };
}

function joined(rests: readonly Rest[]): Rest {
  return {
    ...rests[0]!,
    sinceMs: Math.min(...rests.map(({ sinceMs }) => sinceMs)),
    earliestMs: Math.min(...rests.map(({ earliestMs }) => earliestMs)),
    latestMs: Math.max(...rests.map(({ latestMs }) => latestMs)),
  };
}
