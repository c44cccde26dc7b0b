// Schedules on virtual time: a whole server in one process, on a disk in memory, with clients that
// set, move, pause and delete schedules, workers that finish their jobs, and ends at any step. The
// wall clock is set ahead and back, and is wrong at some starts. A model beside it says which ticks
// must have put a job, and which must not.
//
// A job counts once its record has survived the end of the process. Such a tick never comes again.

import assert from "node:assert/strict";
import { asciiBytes, latin1 } from "../../../src/base/bytes.ts";
import { openBinlog } from "../../../src/binlog/open-binlog.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { Outcome } from "../../../src/engine/jobs/ends.ts";
import { NO_SLOT } from "../../../src/engine/jobs/job-table.ts";
import { JobAttributes } from "../../../src/engine/jobs/new-job.ts";
import {
  BACK_MS_MAX,
  LATE_JOBS_MAX,
  LATE_MS_MAX,
  NO_SINK,
  type Schedule,
  tickKey,
} from "../../../src/engine/schedules.ts";
import { Missed, Overlap } from "../../../src/protocol/schedule-options.ts";
import { LogWord } from "../../../src/ring/shared-words.ts";
import { virtualOptions } from "../../binlog/sample/sample-log.ts";
import { Survival, VirtualDisk } from "../../binlog/virtual-disk.ts";
import { SeededRandom } from "../../support/seeded-random.ts";
import type { FakeSocket } from "../server/fake-socket.ts";
import { LogIsGone } from "../server/in-process-options.ts";
import { InProcessServer } from "../server/in-process-server.ts";
import { type Definition, definitionOf, isSame, isSameTicks, setLine } from "./definition.ts";
import { CRONS, ticksBetween } from "./tick-oracle.ts";

const NAMES = ["a", "b", "nightly"];
const TUBES = ["t1", "t2", "t3", "t4", "t5"];
const ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"];
/** When the clocks of these zones change, and a time that is like any other. */
const CHANGES = [
  "2026-03-29T01:00Z",
  "2026-10-25T01:00Z",
  "2026-03-08T07:00Z",
  "2026-11-01T06:00Z",
  "2026-04-04T15:00Z",
  "2026-10-03T15:30Z",
  "2026-06-11T01:00Z",
].map((text) => Date.parse(text));
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const DOWN_MS_MAX = 4 * HOUR_MS;
/** A downtime with more ticks than a server counts one by one. */
const LONG_DOWN_MS = 8 * DAY_MS;
/** By how much the wall clock may be behind at a start, before it is set right. */
const BEHIND_MS = [HOUR_MS, DAY_MS, 365 * DAY_MS, 53 * 365 * DAY_MS];
/** By how much the wall clock is set ahead or back, or is wrong at a start. */
const STEPS_MS = [500, 30_000, 59_000, 90_000, HOUR_MS / 4, HOUR_MS, 3 * HOUR_MS, DAY_MS, 9 * DAY_MS];
/** A shard looks at the wall clock once a second. */
const LOOK_MS = 1000;
/** So long that the records of a tick are often torn, and a schedule fits into one all the same. */
const BODY_BYTES_MAX = 400;
const PROCESSES = 6;
const ACTS = 14;

export type Plant = (server: InProcessServer) => void;

interface Known extends Definition {
  anchorMs: number;
  /** All ticks up to here have been dealt with. */
  doneMs: number;
  /** The next tick before the wall clock went back, or 0. */
  heldMs: number;
  /** Late ticks in a row whose jobs have survived, and how many there were before the last one. */
  late: number;
  lateBefore: number;
  paused: boolean;
}

/** A command whose reply has not come when the process ends: either may be true. */
interface Open {
  readonly name: string;
  readonly after: Definition | undefined;
}

/** A tick that has put its job, or was skipped while one of its schedule existed. */
interface Put {
  readonly name: string;
  /** The id of its job, or 0. */
  readonly id: number;
  readonly tickMs: number;
  readonly tube: string;
  readonly shard: number;
  readonly record: number;
  /** Whether it was put for a tick that was followed by others that were due. */
  readonly isLate: boolean;
  /** Whether a job of a clock that was ahead still had the tick's key. */
  readonly isDuplicate: boolean;
  isExpected: boolean;
  /** Whether its schedule has gone on from a tick before it since, or from another one. */
  isPassed: boolean;
}

interface CampaignCounts {
  ticks: number;
  ends: number;
  /** Ticks whose jobs were lost with the process, and those whose schedule alone was. */
  lost: number;
  splits: number;
  moves: number;
  /** Ticks that put no job, because one of their schedule existed. */
  skips: number;
  /** Schedules whose next tick went back with the clock. */
  holds: number;
}

export async function playSchedules(seed: number, plant: Plant = () => {}): Promise<CampaignCounts> {
  const campaign = new Campaign(seed, plant);
  for (let process = 0; process < PROCESSES; process++) await campaign.process();
  return campaign.counts;
}

class Campaign {
  readonly counts: CampaignCounts = { ticks: 0, ends: 0, lost: 0, splits: 0, moves: 0, skips: 0, holds: 0 };
  readonly #random: SeededRandom;
  readonly #disk = new VirtualDisk();
  readonly #plant: Plant;
  /** What acknowledged commands have made, by name. */
  readonly #known = new Map<string, Known>();
  /** Ids of the jobs that schedules have put, with the names; some are gone. */
  readonly #jobs = new Map<number, string>();
  /** Keys of ticks whose jobs have survived, with the tube. */
  readonly #kept = new Set<string>();
  #puts: Put[] = [];
  /** What was put when the power failed and was not synced: the log tells whether it is there. */
  #doubtful: Put[] = [];
  #open: Open | undefined;
  #wallMs: number;
  #nowMs = 1000;
  #server!: InProcessServer;
  #client!: FakeSocket;
  #worker!: FakeSocket;

  constructor(seed: number, plant: Plant) {
    this.#random = new SeededRandom(seed);
    this.#plant = plant;
    this.#wallMs = this.#random.pick(CHANGES)! - 5 * HOUR_MS;
  }

  async process(): Promise<void> {
    const random = this.#random;
    const shards = random.between(1, 4);
    const repliesWaitFor = LogWord.Synced;
    const opened = await openBinlog({ ...virtualOptions(this.#disk), shards, segmentBytes: 128 * 1024 });
    this.#server = new InProcessServer({
      shards,
      acceptors: random.between(1, 2),
      random: new SeededRandom(random.bits()),
      holdUps: random.pick([0, 0.1])!,
      slowLog: random.pick([0, 0.9])!,
      startsAtMs: this.#nowMs,
      log: {
        disk: this.#disk,
        opened,
        repliesWaitFor,
        recordRingBytes: 4096,
        wallOffsetMs: this.#wallMs - this.#nowMs,
      },
    });
    this.#plant(this.#server);
    this.#watch();
    this.#server.restore();
    try {
      this.#begin();
      for (let act = 0; act < ACTS; act++) this.#act();
    } catch (error) {
      if (!(error instanceof Cut)) throw error;
    }
    this.#end();
  }

  /** Notes the job of each tick, and its record. */
  #watch(): void {
    for (const [shard, { engine }] of this.#server.shards.entries()) {
      const { schedules } = engine;
      const endRestore = schedules.endRestore.bind(schedules);
      schedules.endRestore = () => {
        const before = [...schedules.table.values()].map(({ nextMs }) => nextMs);
        endRestore();
        for (const [at, { name, nextMs }] of [...schedules.table.values()].entries())
          if (nextMs !== before[at]) this.#splits.set(name, before[at]!);
      };
      this.#watchSkips(shard, engine);
      const put = engine.putScheduled.bind(engine);
      engine.putScheduled = (tube, job, body, nowMs, attributes) => {
        const outcome = put(tube, job, body, nowMs, attributes);
        const isDuplicate = outcome === Outcome.Duplicate;
        if ((outcome !== Outcome.Done && !isDuplicate) || attributes?.hasKey !== true) return outcome;
        const key = latin1(attributes.fixed.bytes, attributes.keyStart, attributes.keyEnd);
        const [name, time] = key.split("@") as [string, string];
        const isAlone = schedules.table.get(name)?.facts.overlap === Overlap.Skip;
        const others = this.#jobsOf(name).filter((id) => id !== job.id);
        assert.ok(!isAlone || others.length === 0, `${key} comes while job ${others} exists`);
        if (!isDuplicate) this.#jobs.set(job.id, name);
        this.#put({
          name,
          id: isDuplicate ? 0 : job.id,
          tickMs: Date.parse(time),
          tube,
          shard,
          // Of a duplicate, only the schedule is logged.
          record: this.#server.records[shard]!.lastNumber + (isDuplicate ? 1 : 0),
          isLate: Date.parse(time) < (this.#lastDue.get(name) ?? 0),
          isDuplicate,
          isExpected: false,
          isPassed: false,
        });
        return outcome;
      };
    }
  }

  /** Notes each tick that is skipped, and its record. */
  #watchSkips(shard: number, { schedules }: Engine): void {
    const { sink, table } = schedules;
    const setNext = table.setNext.bind(table);
    let [tickMs, skips] = [0, 0];
    table.setNext = (schedule, nextMs) => {
      tickMs = schedule.nextMs;
      setNext(schedule, nextMs);
    };
    const ticked = (schedule: Schedule): void => {
      sink.ticked(schedule);
      if (schedules.counts.skipped === skips) return;
      skips = schedules.counts.skipped;
      const { name, facts } = schedule;
      assert.ok(this.#jobsOf(name).length > 0, `${tickKey(name, tickMs)} is skipped for a job`);
      const record = this.#server.records[shard]!.lastNumber;
      const isLate = tickMs < (this.#lastDue.get(name) ?? 0);
      const marks = { isLate, isDuplicate: false, isExpected: false, isPassed: false };
      this.#put({ name, id: 0, tickMs, tube: facts.tube, shard, record, ...marks });
      this.counts.skips++;
    };
    const { scheduled, unscheduled } = sink;
    schedules.sink = { scheduled: scheduled.bind(sink), unscheduled: unscheduled.bind(sink), ticked };
  }

  /** Returns the jobs of a schedule that exist, on whichever shard. */
  #jobsOf(name: string): number[] {
    const exists = (id: number): boolean =>
      this.#server.shards.some(({ engine }) => engine.find(id) !== NO_SLOT);
    return [...this.#jobs].filter(([id, of]) => of === name && exists(id)).map(([id]) => id);
  }

  #put(put: Put): void {
    const key = tickKey(put.name, put.tickMs);
    const mayRepeat = put.tickMs <= (this.#repeatedTo.get(put.name) ?? 0);
    assert.ok(mayRepeat || !put.isDuplicate, `${key} is free`);
    assert.ok(mayRepeat || !this.#kept.has(key), `${key} comes once: it was in the log before`);
    assert.ok(
      mayRepeat || !this.#puts.some(({ name, tickMs }) => tickKey(name, tickMs) === key),
      `${key} comes once`,
    );
    this.#puts.push(put);
    this.counts.ticks++;
  }

  /** Checks what the log has brought back, and what is due at the start. */
  #begin(): void {
    this.#settleDoubtful();
    const found = new Map<string, number>();
    for (const [shard, { engine }] of this.#server.shards.entries())
      for (const { name } of engine.schedules.table.values()) {
        assert.ok(!found.has(name), `${name} is on one shard`);
        found.set(name, shard);
      }
    this.#settleOpen(found);
    this.counts.splits += this.#splits.size;
    // The server can't know whether such a tick was late.
    for (const [name, tickMs] of this.#splits) {
      const known = this.#known.get(name)!;
      // A clock that was ahead may have put the job of a tick that is due again.
      known.late = (tickMs > known.doneMs ? known.late : known.lateBefore) + 1;
      known.doneMs = Math.max(known.doneMs, tickMs);
    }
    this.#splits.clear();
    assert.deepEqual(
      [...found.keys()].sort(),
      [...this.#known.keys()].sort(),
      "the schedules are those that were set",
    );
    for (const [name, shard] of found) {
      const { facts, paused, lateJobs } = this.#server.shards[shard]!.engine.schedules.table.get(name)!;
      const known = this.#known.get(name)!;
      assert.deepEqual(definitionOf(facts), definitionOf(known), `${name} is as it was set`);
      assert.equal(paused, known.paused, `${name} is paused as it was`);
      assert.equal(lateJobs, known.late, `the late jobs in a row of ${name}`);
    }
    this.#client = this.#server.connect(0);
    this.#worker = this.#server.connect(0);
    if (this.#random.chance(0.3)) this.#startWithClockBehind();
    this.#offsetMs = this.#highestOffsetMs = Number.NEGATIVE_INFINITY;
    this.#look(true);
    for (const tube of TUBES) this.#say(this.#worker, `watch ${tube}\r\n`);
  }

  /** The server looks at a wall clock that may have stepped, or for the first time. */
  #look(isStart = false): void {
    const wallMs = this.#serverWallMs();
    const { wallOffsetMs } = this.#server.log!;
    const isAhead = wallOffsetMs > this.#offsetMs + BACK_MS_MAX;
    const isBack = isStart || wallOffsetMs < this.#highestOffsetMs - BACK_MS_MAX;
    this.#highestOffsetMs = isBack ? wallOffsetMs : Math.max(this.#highestOffsetMs, wallOffsetMs);
    this.#offsetMs = wallOffsetMs;
    const expected = new Map<string, readonly number[]>();
    for (const [name, known] of this.#known) {
      if (isAhead) endHold(known, wallMs);
      const ticks = known.paused ? [] : startTicks(known, wallMs);
      expected.set(name, ticks);
      this.#lastDue.set(name, ticks.at(-1) ?? 0);
    }
    const isCatchUp = [...expected.values()].some((ticks) => ticks.length > 1);
    if (isStart && isCatchUp && this.#random.chance(0.5)) this.#endInCatchUp();
    this.#server.settle();
    this.#lastDue.clear();
    for (const [name, known] of this.#known) {
      this.#expect(name, known, expected.get(name)!, wallMs);
      const { doneMs } = known;
      if (!isBack || !goBack(known, wallMs)) continue;
      this.#mayRepeat(name, doneMs);
      this.counts.holds++;
    }
  }

  /** By how much the wall clock was ahead when the server looked last, and at most. */
  #offsetMs = 0;
  #highestOffsetMs = 0;
  /** Up to here, ticks of a clock that was ahead may come again when their time comes. */
  readonly #repeatedTo = new Map<string, number>();

  /** Ticks up to this one may come again. */
  #mayRepeat(name: string, doneMs: number): void {
    this.#repeatedTo.set(name, Math.max(this.#repeatedTo.get(name) ?? 0, doneMs));
    for (const put of this.#puts) if (put.name === name) put.isPassed = true;
  }

  /** Sets the wall clock while the server runs. */
  #stepClock(): void {
    const ms = this.#random.pick(STEPS_MS)!;
    this.#server.log!.wallOffsetMs += this.#random.chance(0.5) ? ms : -ms;
    this.#server.nowMs += LOOK_MS;
    this.#look();
  }

  /** Ticks whose job the log had at a start, but not the schedule after it, by name. */
  readonly #splits = new Map<string, number>();
  /** The last tick that is due at the start, by name. */
  readonly #lastDue = new Map<string, number>();

  /**
   * The clock is behind when the process starts, and set right less than a second later. Meanwhile,
   * no tick may come: it shows a time before the end of the last process, and no new minute.
   */
  #startWithClockBehind(): void {
    const log = this.#server.log!;
    const behindMs = this.#random.pick(BEHIND_MS)!;
    const ms = 1 + this.#random.below(900);
    const minute = (atMs: number): number => Math.floor(atMs / 60_000);
    const wallMs = this.#serverWallMs();
    const isFree = [...this.#known.values()].every(
      ({ timing, doneMs, heldMs }) =>
        timing.everyMs === 0 && heldMs === 0 && doneMs >= wallMs + ms - behindMs && doneMs <= wallMs,
    );
    if (!isFree || minute(wallMs) !== minute(wallMs + ms)) return;
    log.wallOffsetMs -= behindMs;
    this.#server.settle();
    this.#server.nowMs += ms;
    this.#server.settle();
    log.wallOffsetMs += behindMs;
    // The server looks at its clock once a second.
    this.#server.nowMs += 1000;
  }

  /** The process ends while it puts the jobs of ticks that were missed. */
  #endInCatchUp(): never {
    for (let steps = this.#random.below(400); steps > 0; steps--) this.#server.step();
    throw new Cut();
  }

  /** Decides by what came back which jobs have survived the loss of power. */
  #settleDoubtful(): void {
    for (const put of this.#doubtful) {
      const { name, id, tickMs, tube } = put;
      const key = asciiBytes(tickKey(name, tickMs));
      const attributes = new JobAttributes();
      attributes.setKey(key, 0, key.length, false);
      const isThere = this.#server.shards.some(
        ({ engine }) =>
          // A job that has moved has left its key behind.
          engine.find(id) !== NO_SLOT ||
          engine.hasKey(tube, attributes) ||
          (engine.schedules.table.get(name)?.nextMs ?? 0) > tickMs,
      );
      this.#survived(put, isThere);
    }
    this.#doubtful = [];
  }

  /** The model goes on from the last tick that survived: those behind it are due again. */
  #survived({ name, tickMs, isLate, isPassed }: Put, isThere: boolean): void {
    const known = this.#known.get(name);
    if (isThere) {
      this.#kept.add(tickKey(name, tickMs));
      if (known === undefined) return;
      known.lateBefore = known.late;
      known.late = isLate ? known.late + 1 : 0;
      if (!isPassed) passTo(known, tickMs);
    } else {
      this.counts.lost++;
      if (known !== undefined) known.doneMs = Math.min(known.doneMs, tickMs - 1);
    }
  }

  /** Decides by what came back whether a command without a reply has happened. */
  #settleOpen(found: ReadonlyMap<string, number>): void {
    const open = this.#open;
    this.#open = undefined;
    if (open === undefined) return;
    const shard = found.get(open.name);
    const schedule =
      shard === undefined ? undefined : this.#server.shards[shard]!.engine.schedules.table.get(open.name)!;
    const known = this.#known.get(open.name);
    if (schedule === undefined) {
      assert.ok(open.after === undefined || known === undefined, `${open.name} is gone without a delete`);
      if (known !== undefined) this.#mayRepeat(open.name, known.doneMs);
      this.#known.delete(open.name);
      return;
    }
    const isAsBefore = known !== undefined && isSame(schedule.facts, known);
    if (open.after === undefined || !isSame(schedule.facts, open.after)) {
      assert.ok(isAsBefore, `${open.name} is as before or as after the command`);
      return;
    }
    const goesOn = known !== undefined && isSameTicks(known.timing, open.after.timing);
    const { anchorMs, paused, lastMs } = schedule;
    const doneMs = goesOn ? known.doneMs : beginOf(this.#endWallMs, lastMs);
    if (known !== undefined && !goesOn) this.#mayRepeat(open.name, known.doneMs);
    this.#known.set(open.name, {
      ...open.after,
      anchorMs: goesOn ? known.anchorMs : anchorMs,
      doneMs,
      heldMs: goesOn ? known.heldMs : 0,
      late: goesOn ? known.late : 0,
      lateBefore: goesOn ? known.lateBefore : 0,
      paused,
    });
  }

  #endWallMs = 0;
  /** Whether the power has failed in the middle of a write. */
  #isTorn = false;

  /** Checks that exactly these ticks of a name have put jobs since the last check. */
  #expect(name: string, known: Known, ticks: readonly number[], wallMs: number): void {
    const seen = this.#puts
      .filter((put) => put.name === name && !put.isExpected)
      .map((put) => {
        put.isExpected = true;
        return put.tickMs;
      });
    assert.deepEqual(
      seen.map(iso),
      ticks.map(iso),
      `${name} (${known.timing.cron || known.timing.everyMs} ${known.timing.zone}) puts its ticks up to ${iso(wallMs)}`,
    );
    passTo(known, wallMs);
  }

  #serverWallMs(): number {
    return Math.floor(this.#server.nowMs + this.#server.log!.wallOffsetMs);
  }

  #say(socket: FakeSocket, text: string): string {
    socket.write(Buffer.from(text, "latin1"));
    this.#server.settle();
    return socket.takeReceived().toString("latin1");
  }

  #act(): void {
    const random = this.#random;
    const name = random.pick(NAMES)!;
    const known = this.#known.get(name);
    const kind = random.below(10);
    if (kind < 3)
      this.#command(setLine(name, this.#draw(known), random.below(BODY_BYTES_MAX)), name, this.#drawn);
    else if (kind === 3 && random.chance(0.4)) this.#command(`delete-schedule ${name}\r\n`, name, undefined);
    else if (kind === 4) this.#pause(name, known);
    else if (kind === 5) this.#say(this.#client, `move-jobs ${random.pick(TUBES)} ${random.pick(TUBES)}\r\n`);
    else if (kind === 6) this.#work();
    else if (kind === 7) this.#passToChange();
    else if (kind === 8 && random.chance(0.5)) this.#stepClock();
    else this.#pass(random.pick([1000, 20_000, HOUR_MS / 4, HOUR_MS, 5 * HOUR_MS])! * random.next());
  }

  /** Passes the time until the last moments before the next change of the clocks. */
  #passToChange(): void {
    const wallMs = this.#serverWallMs();
    const leftMs = Math.min(...CHANGES.map((ms) => ms - wallMs).filter((ms) => ms > 2000));
    if (leftMs < 12 * HOUR_MS) this.#pass(leftMs - this.#random.below(1500));
  }

  #drawn: Definition | undefined;

  #draw(known: Known | undefined): Definition {
    const random = this.#random;
    const isEvery = random.chance(0.3);
    const timing = isEvery
      ? { cron: "", zone: "UTC", everyMs: random.pick([60_000, 700_000, HOUR_MS])! }
      : { cron: random.pick(CRONS)!, zone: random.pick(ZONES)!, everyMs: 0 };
    const missed = random.pick([Missed.Once, Missed.All, Missed.None])!;
    const goesOn = known !== undefined && random.chance(0.4);
    // On another shard, a hold could end at another look.
    const tube = known !== undefined && known.heldMs > 0 ? known.tube : random.pick(TUBES)!;
    const overlap = random.chance(0.5) ? Overlap.Skip : Overlap.Allow;
    this.#drawn = { timing: goesOn ? known.timing : timing, tube, missed, overlap };
    return this.#drawn;
  }

  /** Sends a set or a delete; with some chance the process ends before the reply. */
  #command(line: string, name: string, after: Definition | undefined): void {
    const known = this.#known.get(name);
    const [before] = this.#server.shards.flatMap(({ engine }) => engine.schedules.table.get(name) ?? []);
    const lastMs = before?.lastMs ?? 0;
    if (this.#random.chance(0.08)) {
      this.#open = { name, after };
      this.#client.write(Buffer.from(line, "latin1"));
      for (let steps = this.#random.below(60); steps > 0; steps--) this.#server.step();
      const reply = this.#client.takeReceived().toString("latin1");
      if (reply === "") throw new Cut();
      this.#open = undefined;
      this.#server.settle();
    } else
      assert.equal(
        this.#say(this.#client, line),
        after === undefined ? (known === undefined ? "NOT_FOUND\r\n" : "DELETED\r\n") : "SET\r\n",
      );
    const goesOn = known !== undefined && after !== undefined && isSameTicks(known.timing, after.timing);
    if (known !== undefined && !goesOn) this.#mayRepeat(name, known.doneMs);
    if (after === undefined) {
      this.#known.delete(name);
      return;
    }
    if (known !== undefined && known.tube !== after.tube) this.counts.moves++;
    const wallMs = this.#serverWallMs();
    const anchorMs = goesOn ? known.anchorMs : wallMs;
    this.#known.set(name, {
      ...after,
      anchorMs,
      doneMs: goesOn ? known.doneMs : beginOf(wallMs, lastMs),
      heldMs: goesOn ? known.heldMs : 0,
      late: goesOn ? known.late : 0,
      lateBefore: goesOn ? known.lateBefore : 0,
      paused: known?.paused ?? false,
    });
  }

  #pause(name: string, known: Known | undefined): void {
    if (known === undefined) return;
    const word = known.paused ? "resume" : "pause";
    assert.equal(this.#say(this.#client, `${word}-schedule ${name}\r\n`), `${word.toUpperCase()}D\r\n`);
    known.paused = !known.paused;
    if (!known.paused) known.late = 0;
    known.doneMs = Math.max(known.doneMs, this.#serverWallMs());
  }

  /** A worker takes jobs and finishes them: their keys are free from then on. */
  #work(): void {
    const reply = this.#say(this.#worker, "reserve-batch 50 0\r\n");
    const ids = [...reply.matchAll(/^RESERVED (\d+) /gm)].map(([, id]) => id);
    if (ids.length > 0) this.#say(this.#worker, `delete-batch ${ids.join(" ")}\r\n`);
  }

  /** Lets time pass, stopping at each tick; the process may end at any step of the way. */
  #pass(ms: number): void {
    const server = this.#server;
    const untilMs = server.nowMs + Math.floor(ms);
    const offsetMs = server.log!.wallOffsetMs;
    const ends = this.#random.chance(0.3);
    for (;;) {
      const dueMs =
        Math.min(...server.shards.map(({ engine }) => engine.schedules.table.timers.nextAtMs)) - offsetMs;
      server.nowMs = Math.max(server.nowMs, Math.min(untilMs, dueMs));
      if (dueMs <= untilMs && ends && this.#random.chance(0.5)) this.#endInTick();
      server.settle();
      if (dueMs > untilMs) break;
    }
    const wallMs = this.#serverWallMs();
    for (const [name, known] of this.#known) {
      const { timing, anchorMs, doneMs, paused } = known;
      this.#expect(name, known, paused ? [] : ticksBetween(timing, anchorMs, doneMs, wallMs), wallMs);
    }
  }

  /**
   * The process ends a few steps after a tick is due, or between the records of the tick, or the
   * power fails in the next sync.
   */
  #endInTick(): never {
    const server = this.#server;
    const way = this.#random.below(3);
    // The log ends between the two records of the tick.
    if (way === 0) for (const { engine } of server.shards) engine.schedules.sink = { ...NO_SINK };
    if (way === 1) {
      this.#isTorn = true;
      this.#disk.fault = (call) => {
        if (call !== "sync") return;
        server.halt();
        throw Object.assign(new Error("the power is gone"), { code: "EIO" });
      };
    }
    try {
      for (let steps = way < 2 ? 200 : this.#random.below(12); steps > 0; steps--) server.step();
    } catch (error) {
      if (!(error instanceof LogIsGone)) throw error;
    }
    this.#disk.fault = () => {};
    throw new Cut();
  }

  /** The process is killed, or the power fails and tears what was not synced. */
  #end(): void {
    const server = this.#server;
    const isKill = !this.#isTorn && this.#random.chance(0.5);
    this.#isTorn = false;
    const storage = server.storage!;
    for (const put of this.#puts) {
      const isSynced = put.record <= storage.tail.synced[put.shard]!;
      if (isKill || isSynced) this.#survived(put, isSynced || put.record <= storage.tail.written[put.shard]!);
      else this.#doubtful.push(put);
    }
    this.#puts = [];
    this.#endWallMs = this.#serverWallMs();
    server.halt();
    if (isKill) this.#disk.kill();
    else this.#disk.crash(this.#random, Survival.Sectors);
    this.#nowMs = 1000 + this.#random.below(1000);
    const downMs = this.#random.chance(0.2) ? LONG_DOWN_MS : this.#random.below(DOWN_MS_MAX);
    this.#wallMs = this.#endWallMs + this.#random.pick([0, 100, downMs])!;
    if (this.#random.chance(0.2)) this.#wallMs += this.#random.pick(STEPS_MS)! * this.#random.pick([-1, 1])!;
    this.counts.ends++;
  }
}

class Cut extends Error {}

const iso = (ms: number): string => new Date(ms).toISOString();

/** Returns the first tick after this time. */
function tickAfter({ timing, anchorMs }: Known, afterMs: number): number {
  for (let fromMs = afterMs; ; fromMs += DAY_MS) {
    const [tickMs] = ticksBetween(timing, anchorMs, fromMs, fromMs + DAY_MS);
    if (tickMs !== undefined) return tickMs;
  }
}

/** All ticks up to here are dealt with. A hold ends where the clock comes to what it was before. */
function passTo(known: Known, atMs: number): void {
  known.doneMs = Math.max(known.doneMs, atMs);
  if (known.heldMs > 0 && tickAfter(known, known.doneMs) >= known.heldMs) known.heldMs = 0;
}

/** Returns after which time a schedule has ticks that is set anew: its last tick does not recur. */
const beginOf = (wallMs: number, lastMs: number): number =>
  lastMs <= wallMs + BACK_MS_MAX ? Math.max(wallMs, lastMs) : wallMs;

/** Returns whether a clock that was right may have made this the next tick. */
function mayBeNext(known: Known, tickMs: number, wallMs: number): boolean {
  const firstMs = tickAfter(known, wallMs);
  return tickMs <= Math.max(firstMs + BACK_MS_MAX, tickAfter(known, firstMs));
}

/**
 * The clock has gone back. If that is by more than a minute and an interval, the next tick is the
 * first one after the time that it shows now.
 */
function goBack(known: Known, wallMs: number): boolean {
  const { timing, doneMs } = known;
  const nextMs = tickAfter(known, doneMs);
  if (nextMs <= wallMs + timing.everyMs + BACK_MS_MAX) return false;
  const isAhead = timing.everyMs > 0 && known.anchorMs > wallMs + BACK_MS_MAX;
  const anchorMs = isAhead ? wallMs : known.anchorMs;
  if (mayBeNext({ ...known, anchorMs }, nextMs, wallMs)) return false;
  known.anchorMs = anchorMs;
  known.heldMs = Math.max(known.heldMs, nextMs);
  known.doneMs = wallMs;
  return true;
}

/** The clock has gone ahead, to where the tick that it had before may be the next one. */
function endHold(known: Known, wallMs: number): void {
  const { heldMs, timing } = known;
  if (heldMs === 0) return;
  const { everyMs } = timing;
  const isNext =
    everyMs > 0 ? heldMs <= wallMs + 2 * everyMs + BACK_MS_MAX : mayBeNext(known, heldMs, wallMs);
  if (!isNext) return;
  if (everyMs > 0) known.anchorMs = heldMs - everyMs;
  known.doneMs = heldMs - 1;
  known.heldMs = 0;
}

/** Returns the ticks that put a job at a start, of those that are due then. */
function startTicks({ timing, anchorMs, doneMs, missed, late }: Known, wallMs: number): number[] {
  const due = ticksBetween(timing, anchorMs, doneMs, wallMs);
  if (missed === Missed.All)
    return due.length + late <= LATE_JOBS_MAX
      ? due
      : [...due.slice(0, LATE_JOBS_MAX - 1 - late), due.at(-1)!];
  const last = due.slice(-1);
  return missed === Missed.None ? last.filter((tickMs) => wallMs - tickMs <= LATE_MS_MAX) : last;
}
