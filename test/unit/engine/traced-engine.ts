// An engine that notes in words all that comes out of it: what it tells clients, the log and the
// meters.

import { Memory } from "../../../src/base/bytes.ts";
import { Engine, Outcome } from "../../../src/engine/engine.ts";
import { EMPTY_BODY } from "../../../src/engine/jobs/body-arena.ts";
import { JobState, NO_SLOT, rowOf } from "../../../src/engine/jobs/job-table.ts";
import { JobAttributes, type NewJob } from "../../../src/engine/jobs/new-job.ts";
import type { Meter, RecordSink } from "../../../src/engine/state/effects.ts";
import type { Session } from "../../../src/engine/state/session.ts";
import type { EngineOptions } from "../../../src/engine/state/shard-state.ts";
import { ATTRIBUTE_BYTES_MAX, Attribute, AttributeWriter } from "../../../src/protocol/job-attribute.ts";
import { eachJobCounter, FIXED_COUNTERS } from "../../../src/schema/job.ts";
import type { SettingValues } from "../../../src/schema/setting.ts";
import { checkInvariants } from "../../support/in-process/engine-invariants.ts";
import { setTubes } from "../../support/in-process/set-tubes.ts";

const nameOf = (names: Readonly<Record<string, number>>, value: number): string =>
  Object.keys(names)
    .find((name) => names[name] === value)!
    .toLowerCase();

/** Names of the figures that are not 0, each with its figure. */
export const figures = (all: Readonly<Record<string, number>>): string =>
  Object.entries(all)
    .filter(([, figure]) => figure !== 0)
    .map(([name, figure]) => ` ${name} ${figure}`)
    .join("");

/** The key that a job leaves behind has a record with the id of the job and this. */
const LEFT_IDS = 1000;

export class TracedEngine {
  readonly engine: Engine;
  nowMs = 0;
  /** Whether the log takes a put: before it begins, and at its end. */
  readonly log = { begins: true, ends: true };
  readonly #said: string[] = [];
  readonly #sessions = new Set<number>();
  #sequence = 0;

  /** This shard owns all tubes but those whose names begin with `far`. */
  constructor(options: Pick<EngineOptions, "orderedTubesMin" | "turnDueMax"> = {}) {
    const say = (session: Session, what: string): void => void this.#say(`${session.index}: ${what}`);
    this.engine = new Engine({
      effects: {
        reserved: (session, slot) => say(session, `gets ${this.#id(slot)}`),
        timedOut: (session) => say(session, "timed out"),
        deadlineSoon: (session) => say(session, "deadline soon"),
        waitDue: (session) => say(session, "wait due"),
        claim: () => true,
        stillWaiting: () => true,
        nextTubeSequence: () => ++this.#sequence,
      },
      ...{ records: this.#records(), meter: this.#meter(), ownsDefaultTube: true },
      ownsTube: (name) => !name.startsWith("far"),
      ...options,
    });
  }

  #say(what: string): true {
    this.#said.push(what);
    return true;
  }

  #id(slot: number): number {
    return this.engine.jobs.pageOf(slot).id[rowOf(slot)]!;
  }

  readonly ids = (slots: readonly number[]): number[] => slots.map((slot) => (slot < 0 ? 0 : this.#id(slot)));

  #records(): RecordSink {
    return {
      roomForPut: () => this.log.begins,
      put: (slot) => this.log.ends && this.#say(`put ${this.#id(slot)}`),
      fitsOneRecord: () => true,
      replaced: (slot) => void this.#say(`replaced ${this.#id(slot)}`),
      updated: (slot) => void this.#say(`updated ${this.#id(slot)}`),
      deleted: (id) => void this.#say(`deleted ${id}`),
      ended: (id, batch, done, failed) =>
        void this.#say(`ended ${id} of batch ${batch}, ${done} done, ${failed} failed`),
      remembered: (slot) => void this.#say(`remembered ${this.#id(slot)}`),
      left: (slot) => {
        const id = this.log.begins ? this.#id(slot) + LEFT_IDS : 0;
        this.#say(`left ${this.#id(slot)} as ${id}`);
        return id;
      },
    };
  }

  #meter(): Meter {
    const tubeMeter = (what: string) => ({
      waited: (ms: number) => void this.#say(`${what}waited ${ms}`),
      held: (ms: number) => void this.#say(`${what}held ${ms}`),
    });
    return {
      ...tubeMeter(""),
      stored: (bodyBytes) => void this.#say(`stored ${bodyBytes}`),
      of: (name) => (name === "metered" ? tubeMeter("metered: ") : undefined),
    };
  }

  /** The session of this index, which uses `t` and watches these tubes. */
  session(index: number, ...watches: string[]): Session {
    const session = this.engine.session(index);
    this.#sessions.add(index);
    this.engine.use(session, "t");
    for (const tube of watches) this.engine.watch(session, tube);
    return session;
  }

  set(tube: string, settings: Partial<SettingValues>): void {
    setTubes(this.engine, tube, settings, this.nowMs);
  }

  /** What came out since the last look. */
  take(): string {
    checkInvariants(this.engine, this.#sessions);
    return this.#said.splice(0).join(", ");
  }

  /** The outcome of a command, and what came out. */
  does(command: (engine: Engine, nowMs: number) => unknown): string {
    this.take();
    const outcome = command(this.engine, this.nowMs);
    const said = this.take();
    return `${typeof outcome === "number" ? nameOf(Outcome, outcome) : outcome}${said === "" ? "" : `: ${said}`}`;
  }

  /** Puts a job into `t`, as its text attributes, its batches and times say. */
  put(
    id: number,
    job: Partial<NewJob> & { readonly tube?: string; readonly group?: string } = {},
    attributes: Partial<JobAttributes> = {},
  ): string {
    const { tube = "t", group = "", ...facts } = job;
    const all = Object.assign(new JobAttributes().clear(), attributes);
    if (group !== "") all.fixed.text(Attribute.Group, Buffer.from(group), 0, group.length);
    const usual = { id, pri: 0, delaySeconds: 0, delayMillis: 0, ttrSeconds: 60, bodyBytes: 0 };
    const hasAttributes = group !== "" || Object.keys(attributes).length > 0;
    return this.does((engine, nowMs) =>
      engine.put(
        engine.session(0),
        { ...usual, atMs: nowMs, ...facts },
        (facts.bodyBytes ?? 0) > 0 ? engine.bodies.allocate(facts.bodyBytes!) : EMPTY_BODY,
        nowMs,
        tube,
        hasAttributes ? all : undefined,
      ),
    );
  }

  hold(id: number, session: Session = this.session(0)): string {
    return this.does((engine, nowMs) => engine.reserveJob(session, id, nowMs));
  }

  /** Lets time pass. */
  wait(ms: number): string {
    this.nowMs += ms;
    this.engine.runDue(this.nowMs);
    return this.take();
  }

  /** A job's tube, state and figures, or `gone`. */
  job(id: number): string {
    const { engine } = this;
    const slot = engine.find(id);
    if (slot === NO_SLOT) return "gone";
    const page = engine.jobs.pageOf(slot);
    const row = rowOf(slot);
    const { extras } = page;
    const counts = {
      ...{ pri: page.pri[row]!, delay: page.delaySeconds[row]!, ttr: page.ttrSeconds[row]! - 60 },
      ...eachJobCounter((_, counter) => (counter < FIXED_COUNTERS ? page.count(row, counter) : 0)),
      at: page.deadlineAtMs[row]!,
      ...{ excused: extras?.attemptsBase[row] ?? 0, expires: extras?.expiresAtMs[row] ?? 0 },
      bytes: page.bodyBytes[row]!,
    };
    return `${engine.tubeOf(slot).name} ${nameOf(JobState, page.state[row]!)}${figures(counts)}`;
  }

  /** A tube's figures. */
  tube(name: string): string {
    const tube = this.engine.findTube(name);
    if (tube === undefined) return "none";
    const { totalJobs, deletes, reserves, releases, buries, kicks, timeouts, pauses } = tube;
    const counts = { totalJobs, deletes, reserves, releases, buries, kicks, timeouts, pauses };
    return figures({ ...counts, ...tube.countsIfAny }).trim();
  }

  /** The figures of the shard that a tube has too. */
  shard(): string {
    const { totalJobs, jobDeletes: deletes, jobReserves: reserves, jobReleases: releases } = this.engine;
    const { jobBuries: buries, jobKicks: kicks, jobTimeouts: timeouts, jobCancels: cancelled } = this.engine;
    return figures({ totalJobs, deletes, reserves, releases, buries, kicks, timeouts, cancelled }).trim();
  }

  /** The attributes of a job as an update in the log has them. */
  logged(id: number, wallOffsetMs = 0): JobAttributes {
    const writer = new AttributeWriter(Memory.ofSize(ATTRIBUTE_BYTES_MAX));
    const slot = this.engine.find(id);
    this.engine.policies.attributes.writeFixed(slot, writer, wallOffsetMs);
    this.engine.policies.attributes.writeMutable(slot, writer, wallOffsetMs);
    return new JobAttributes().read(writer.bytes, 0, writer.length, wallOffsetMs);
  }
}
