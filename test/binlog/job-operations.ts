// Operations of shards on jobs, as records that a simulated log receives.

import { Memory } from "../../src/base/bytes.ts";
import {
  emptyRecordFields,
  encodeDelete,
  encodePieceHead,
  encodePutHead,
  encodeSetting,
  encodeUpdate,
  type RecordFields,
  RecordState,
} from "../../src/message/record.ts";
import { Attribute, AttributeWriter } from "../../src/protocol/job-attribute.ts";
import { JobCounter } from "../../src/schema/job.ts";
import { type LogLife, SHARDS, type SimulatedJob, structuredCloneOf } from "./log-life.ts";
import { jobText, PATTERNS, settingId } from "./model.ts";

const TUBES = ["default", "mail", "a-much-longer-tube-name-for-a-change", "0.5"];

export class JobOperations {
  readonly #life: LogLife;
  burySequence = 1;
  clearing = false;
  /** Number of the last record of a put. */
  lastN = 0;

  constructor(life: LogLife) {
    this.#life = life;
  }

  /** One operation of a shard on a job. */
  operate(): void {
    const random = this.#life.random;
    const ids = [...this.#life.live.keys()];
    const wish = random.below(100);
    switch (this.#life.load) {
      case "mixed":
        if (ids.length === 0 || (wish < 40 && ids.length < 60)) this.put();
        else if (wish < 75) this.update(random.pick(ids)!);
        else this.delete(random.pick(ids)!);
        return;
      case "queue":
        if (ids.length < 5 + random.below(10)) this.put();
        else this.delete(ids[0]!);
        return;
      case "buried":
        if (ids.length < 3) this.put();
        else if (ids.length > 8) this.delete(ids[2 + random.below(2)]!);
        else this.put();
        return;
      case "delayed-loop":
        if (ids.length < 2) this.put();
        else this.update(ids[0]!);
        return;
      case "kick-bury":
        if (ids.length < 12) this.put();
        else this.update(random.pick(ids)!);
        return;
      case "burst-and-clear":
        if (this.clearing) {
          if (ids.length === 0) this.clearing = false;
          else this.delete(ids.at(-1)!);
        } else {
          this.put();
          if (ids.length > 150) this.clearing = true;
        }
    }
  }

  record(shard: number, n: number, id: number, job: string | undefined): void {
    this.#life.model.operations.push({ shard, n, id, job, atMs: this.#life.nowMs });
  }

  put(): void {
    const random = this.#life.random;
    if (this.#life.storage.room.full) return;
    if (random.chance(0.05)) {
      this.set();
      return;
    }
    const id = this.#life.nextId++;
    const tube = random.pick(TUBES)!;
    const body = String.fromCharCode(97 + random.below(26)).repeat(
      random.chance(0.1) ? 0 : random.below(400),
    );
    const fields: RecordFields = {
      ...emptyRecordFields(),
      id,
      pri: random.below(5),
      state: random.chance(0.2) ? RecordState.delayed : RecordState.ready,
      delaySeconds: random.below(9),
      ttrSeconds: 1 + random.below(99),
      createdAtMs: this.#life.nowMs + 0.25,
      deadlineAtMs: random.below(1_000_000),
    };
    const fixed = random.chance(0.3) ? this.drawnFixed() : Buffer.alloc(0);
    const changing = random.chance(0.2) ? this.drawnChanging(false) : Buffer.alloc(0);
    const job: SimulatedJob = { fields, tube, body, fixed, changing, moved: false };
    if (this.putRecords(job)) this.settle(job);
  }

  /** Appends a job, in one record or in pieces; false if it was given up in the middle. */
  putRecords({ fields, tube, body, fixed, changing }: SimulatedJob): boolean {
    const random = this.#life.random;
    const { id } = fields;
    const shard = tube.charCodeAt(0) % SHARDS;
    const bytes = Buffer.from(body, "latin1");
    const name = Buffer.from(tube, "latin1");
    const pieces = body.length > 40 && random.chance(0.2) ? 1 + random.below(3) : 0;
    const inline = pieces === 0 ? body.length : Math.floor(body.length / (pieces + 1));
    const attributes = padded(fixed, changing);
    const bodyAt = encodePutHead(this.#life.scratch, 0, fields, name, body.length, attributes);
    let n = this.#life.appendWith(shard, bytes.subarray(0, inline), bodyAt);
    for (let done = inline; done < body.length; ) {
      const length = Math.min(body.length - done, Math.max(1, inline));
      this.record(shard, n, id, undefined);
      if (random.chance(0.05)) {
        this.giveUp(shard, id);
        return false;
      }
      const partAt = encodePieceHead(this.#life.scratch.view, 0, id, done);
      n = this.#life.appendWith(shard, bytes.subarray(done, done + length), partAt);
      done += length;
    }
    this.lastN = n;
    return true;
  }

  /** The last record made the job what it is. */
  settle(job: SimulatedJob): void {
    const shard = job.tube.charCodeAt(0) % SHARDS;
    const text = textOf(job);
    this.record(shard, this.lastN, job.fields.id, text);
    this.#life.live.set(job.fields.id, job);
    this.#life.everSeen.set(text, structuredCloneOf(job));
  }

  drawnFixed(): Buffer {
    const writer = new AttributeWriter(Memory.ofSize(1020));
    const key = Buffer.from("k".repeat(1 + this.#life.random.below(60)));
    writer.text(Attribute.UniqueKey, key, 0, key.length);
    if (this.#life.random.chance(0.5))
      writer.float64(Attribute.UniqueUntil, this.#life.random.below(1_000_000));
    if (this.#life.random.chance(0.3)) writer.uint16(Attribute.Weight, 1 + this.#life.random.below(1000));
    return Buffer.from(writer.bytes.subarray(0, writer.length));
  }

  drawnChanging(moved: boolean): Buffer {
    const writer = new AttributeWriter(Memory.ofSize(1020));
    if (moved) writer.flag(Attribute.Moved);
    if (this.#life.random.chance(0.6))
      writer.float64(Attribute.ExpiresAt, this.#life.random.below(1_000_000));
    if (this.#life.random.chance(0.4)) writer.uint32(Attribute.AttemptsBase, this.#life.random.below(50));
    if (this.#life.random.chance(0.2)) {
      const origin = Buffer.from(this.#life.random.pick(TUBES)!);
      writer.text(Attribute.Origin, origin, 0, origin.length);
      writer.uint8(Attribute.Reason, 1);
    }
    return Buffer.from(writer.bytes.subarray(0, writer.length));
  }

  /** Sets something for a pattern, or nothing any more. */
  set(): void {
    const pattern = this.#life.random.pick(PATTERNS)!;
    const text = this.#life.random.chance(0.3) ? "" : `max-jobs=${this.#life.random.below(1000)}`;
    const shard = this.#life.random.below(SHARDS);
    const bytes = encodeSetting(this.#life.scratch, 0, Buffer.from(pattern), Buffer.from(text));
    this.record(shard, this.#life.append(shard, bytes), settingId(pattern), text === "" ? undefined : text);
  }

  /** A put whose client went away in the middle of the body. */
  giveUp(shard: number, id: number): void {
    this.record(shard, this.#life.append(shard, encodeDelete(this.#life.scratch.view, 0, id)), id, undefined);
  }

  update(id: number): void {
    const random = this.#life.random;
    const job = this.#life.live.get(id)!;
    const f = job.fields;
    if (f.state === RecordState.remembered) {
      this.delete(id);
      return;
    }
    f.state = random.pick([RecordState.ready, RecordState.delayed, RecordState.buried]);
    f.pri = random.below(5);
    for (const counter of [JobCounter.releases, JobCounter.kicks, JobCounter.timeouts])
      f.counters[counter]! += random.below(2);
    f.counters[JobCounter.buries]! += f.state === RecordState.buried ? 1 : 0;
    f.burySequence = f.state === RecordState.buried ? this.burySequence++ : 0;
    f.deadlineAtMs = random.below(1_000_000);
    f.delaySeconds = random.below(100);
    if (random.chance(0.1)) {
      // To another shard, maybe: its record stands behind all that the first one has written of the
      // job.
      job.tube = random.pick(TUBES)!;
      job.moved = true;
    }
    if (job.moved || random.chance(0.2)) job.changing = this.drawnChanging(job.moved);
    this.lastN = this.#life.append(job.tube.charCodeAt(0) % SHARDS, this.encodedUpdate(job));
    this.settle(job);
  }

  encodedUpdate({ fields, tube, changing, moved }: SimulatedJob): number {
    if (!moved && changing.length === 0) return encodeUpdate(this.#life.scratch, 0, fields);
    const name = Buffer.from(moved ? tube : "");
    return encodeUpdate(this.#life.scratch, 0, fields, name, padded(changing));
  }

  delete(id: number): void {
    const job = this.#life.live.get(id)!;
    const shard = job.tube.charCodeAt(0) % SHARDS;
    if (
      job.fixed.length > 0 &&
      job.fields.state !== RecordState.remembered &&
      !this.#life.storage.room.full
    ) {
      this.remember(job);
      return;
    }
    this.#life.live.delete(id);
    this.record(shard, this.#life.append(shard, encodeDelete(this.#life.scratch.view, 0, id)), id, undefined);
  }

  /** The job is gone, its key is kept. */
  remember(job: SimulatedJob): void {
    job.fields.state = RecordState.remembered;
    job.body = "";
    job.changing = Buffer.alloc(0);
    this.putRecords(job);
    this.settle(job);
  }
}

function textOf({ fields, tube, body, fixed, changing }: SimulatedJob): string {
  return jobText(fields, tube, body, padded(fixed, changing).toString("hex"));
}

/** `parts` one after the other, padded as a record wants it. */
function padded(...parts: Buffer[]): Buffer {
  const together = Buffer.concat(parts);
  return Buffer.concat([together, Buffer.alloc((4 - (together.length % 4)) % 4)]);
}
