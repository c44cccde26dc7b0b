// Wall clock of a simulated server over all its processes, and what its log must make of it: the
// log's clock goes on without the steps that the log has a note of, and never begins before its
// newest job was put.

import assert from "node:assert/strict";
import type { LogClock } from "../../../src/binlog/live/log-clock.ts";
import { BACK_MS_MAX } from "../../../src/engine/schedules.ts";
import type { SeededRandom } from "../../support/seeded-random.ts";
import type { ProcessEnd } from "../model/durability-ledger.ts";
import type { InProcessLog } from "./in-process-options.ts";
import type { InProcessServer } from "./in-process-server.ts";

/** The wall clock goes on while no server runs. */
const DOWN_MS_MAX = 5000;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/**
 * By how much the clock may be wrong; the first few beside schedules, which catch up with each
 * second: of hundreds of jobs that are due at once, an engine handles a part in each turn, which
 * the model does not follow.
 */
const ERRORS_MS = [40, 150, 2000, 20_000, 40_000, HOUR_MS, 400 * DAY_MS, 53 * 365 * DAY_MS];
const ERRORS_BESIDE_SCHEDULES = 5;
/** The server looks once a second. A smaller difference isn't noted. */
const LOOK_MS = 1000;
const NOTED_MS_MIN = 100;
/** A note has whole ms. */
const ROUNDED_MS = 0.5;
/** A job may be put so long after one with a higher id. */
const OVERTAKEN_MS_MAX = 30_000;

export interface WallClockOptions {
  /** Whether it is set while servers run, and is wrong at some starts. */
  readonly steps: boolean;
  /** Whether there are schedules. */
  readonly schedules: boolean;
}

export class WallClock {
  /** When the last process ended, or the present one began. */
  #wallMs = 1_700_000_000_000;
  #errorMs = 0;
  #log: InProcessLog | undefined;
  #clock: LogClock | undefined;
  readonly #steps: boolean;
  readonly #errorsMs: readonly number[];
  readonly #random: SeededRandom;
  #startedAtMs = 0;
  #startWallMs = 0;
  /** The log's clock at the end of the last process. */
  #endLogMs = 0;
  /** How far the wall clock is ahead, in notes that the log may have; the last is the newest. */
  #notes: { readonly aheadMs: number; isWritten: boolean }[] = [{ aheadMs: 0, isWritten: true }];
  #steppedAtMs = Number.NEGATIVE_INFINITY;
  /** When the log had no room for a note. */
  #refusedAtMs = Number.NEGATIVE_INFINITY;
  /** By how much the wall clock is ahead of the monotonic clock, at least, as a shard sees it. */
  #seenOffsetMs = 0;
  /** How far ahead the wall clock was at most, since it went back so far that ticks come again. */
  #highestOffsetMs = 0;
  /** Whether the last step took the wall clock back so far. */
  hasGoneBack = false;

  constructor(random: SeededRandom, { steps, schedules }: WallClockOptions) {
    this.#random = random;
    this.#steps = steps;
    this.#errorsMs = ERRORS_MS.slice(0, schedules ? ERRORS_BESIDE_SCHEDULES : ERRORS_MS.length);
  }

  get wallMs(): number {
    return this.#wallMs;
  }

  /** Time passes while no server runs, and the clock may be wrong when the next one starts. */
  passDown(): void {
    // At least what `end` rounds off, or the clock would go back between two processes.
    this.#wallMs += Math.max(1, this.#random.between(0, DOWN_MS_MAX));
    if (this.#steps && this.#random.chance(0.3)) this.#wallMs += this.#drawStep();
  }

  /** Draws how wrong the clock is from now on; returns by how much that sets it ahead. */
  #drawStep(): number {
    const before = this.#errorMs;
    const isRight = this.#random.chance(0.3);
    this.#errorMs = isRight ? 0 : this.#random.pick(this.#errorsMs)! * this.#random.pick([1, -1]);
    return this.#errorMs - before;
  }

  /**
   * A process begins. Throws unless the log's clock shows what it should: `newestMs` is when the
   * newest job was put that is there.
   */
  begin(server: InProcessServer, newestMs: number): void {
    const { log, logClock, nowMs } = server;
    assert.ok(log !== undefined && logClock !== undefined, "a server with a log has its clock");
    const clock = logClock;
    this.#log = log;
    this.#clock = clock;
    this.#startedAtMs = nowMs;
    this.#startWallMs = this.#wallMs;
    this.#seenOffsetMs = log.wallOffsetMs;
    this.#highestOffsetMs = log.wallOffsetMs;
    const logMs = nowMs + clock.offsetMs;
    const showsNote = (aheadMs: number): boolean => Math.abs(logMs - (this.#wallMs - aheadMs)) < 0.01;
    const candidates = this.#notes.map(({ aheadMs }) => aheadMs);
    // The job may be gone, but its record still there.
    const continues = logMs <= this.#endLogMs && candidates.some((aheadMs) => this.#wallMs - aheadMs < logMs);
    assert.ok(
      candidates.some(showsNote) || continues,
      `the log's clock begins at ${logMs}; the wall clock shows ${this.#wallMs}, with notes of ${candidates}`,
    );
    assert.ok(
      logMs >= newestMs - OVERTAKEN_MS_MAX,
      `the log's clock begins at ${logMs}, before its newest job of ${newestMs}`,
    );
    const known = this.#notes.filter(({ aheadMs }) => continues || showsNote(aheadMs));
    this.#notes = known.map(({ aheadMs }) => ({ aheadMs, isWritten: true }));
    this.#watch(server);
  }

  #watch(server: InProcessServer): void {
    const storage = server.storage!;
    const append = storage.appendNow.bind(storage);
    storage.appendNow = (bytes) => {
      const ahead = /@clockahead=(-?\d+)$/.exec(Buffer.from(bytes).toString("latin1"))?.[1];
      assert.ok(ahead !== undefined, "what the log appends by itself is a note of its clock");
      if (!append(bytes)) {
        this.#refusedAtMs = server.nowMs;
        return false;
      }
      this.#notes.push({ aheadMs: Number(ahead), isWritten: false });
      return true;
    };
    const flush = storage.flush.bind(storage);
    storage.flush = (nowMs) => {
      flush(nowMs);
      if (storage.failure !== undefined || storage.room.waiting) return;
      for (const note of this.#notes) note.isWritten = true;
    };
  }

  /** Sets the wall clock while the server runs; says what it did. */
  step(nowMs: number): string {
    const ms = this.#drawStep();
    if (nowMs > this.#steppedAtMs + LOOK_MS) this.#seenOffsetMs = this.#log!.wallOffsetMs;
    this.#log!.wallOffsetMs += ms;
    this.#seenOffsetMs = Math.min(this.#seenOffsetMs, this.#log!.wallOffsetMs);
    this.#steppedAtMs = nowMs;
    const offsetMs = this.#log!.wallOffsetMs;
    this.hasGoneBack = offsetMs < this.#highestOffsetMs - BACK_MS_MAX;
    this.#highestOffsetMs = this.hasGoneBack ? offsetMs : Math.max(this.#highestOffsetMs, offsetMs);
    return `the wall clock is set ${ms < 0 ? "back" : "ahead"} by ${Math.abs(ms)} ms`;
  }

  /** Returns the earliest time of the wall clock that a shard may act upon. */
  seenMs(nowMs: number): number {
    const isSeen = nowMs > this.#steppedAtMs + LOOK_MS;
    return Math.floor(nowMs + (isSeen ? this.#log!.wallOffsetMs : this.#seenOffsetMs));
  }

  /** Returns how far the wall clock is ahead of what the log has a note of. */
  get #unnotedMs(): number {
    const aheadMs = this.#log!.wallOffsetMs - this.#clock!.offsetMs;
    return Math.abs(aheadMs - this.#notes.at(-1)!.aheadMs);
  }

  /** Checks at rest that a step has been noted. */
  checkRest(nowMs: number, mayNote: boolean): void {
    const isDue = nowMs > Math.max(this.#steppedAtMs, this.#startedAtMs, this.#refusedAtMs) + LOOK_MS;
    assert.ok(
      !isDue || !mayNote || this.#unnotedMs <= NOTED_MS_MIN + ROUNDED_MS,
      `a step of the wall clock is noted: ${this.#unnotedMs} ms are not`,
    );
  }

  /** The process has ended at `nowMs` of its clock. */
  end(end: ProcessEnd, nowMs: number, mayNote: boolean): void {
    if (end === "stop" && mayNote)
      assert.ok(
        this.#unnotedMs <= NOTED_MS_MIN + ROUNDED_MS,
        "an orderly stop notes a step of the wall clock",
      );
    this.#endLogMs = nowMs + this.#clock!.offsetMs;
    const steppedMs = this.#log!.wallOffsetMs - (this.#startWallMs - this.#startedAtMs);
    this.#wallMs = this.#startWallMs + steppedMs + Math.floor(nowMs - this.#startedAtMs);
    // After a power cut, any may be lost that was not synced.
    const last =
      end === "power" ? 0 : this.#notes.findLastIndex(({ isWritten }) => end === "stop" || isWritten);
    this.#notes = this.#notes.slice(Math.max(0, last));
    this.#steppedAtMs = Number.NEGATIVE_INFINITY;
    this.#refusedAtMs = Number.NEGATIVE_INFINITY;
  }
}
