// Answers questions of the HTTP thread, one slice per turn, so that no question delays commands for
// longer.
//
// Questions take turns of one slice each. A slice is about 0.1 ms of work and one message. It runs
// only while the ring to the HTTP thread is at most half full, which leaves room for replies.

import { Packr } from "msgpackr/pack";
import { assert, CHECKED } from "../../base/assert.ts";
import { copyBytes } from "../../base/bytes.ts";
import { NO_SLOT } from "../../engine/jobs/job-table.ts";
import type { Answers, Questions, ShardTotals, Verb } from "../../message/control.ts";
import { type ReplyPort, ResponseFlag } from "../../message/response.ts";
import { FAILURES_MAX } from "../../protocol/job-failure.ts";
import { finishedFacts } from "../sessions/job-text.ts";
import type { TransferSender } from "../transfer/transfer-sender.ts";
import { beginBrowse, jobFacts } from "./browse.ts";
import { actOnJob, BulkWork } from "./bulk-work.ts";
import type { ControlAnswerer, ControlShard, ControlWork } from "./control-work.ts";
import { changeLease, giveBackLease, sessionFacts } from "./leases.ts";
import { inspectTube, ListSettings, ListTubes, textOf } from "./list-tubes.ts";
import { type LatencyMeter, ListFlowSigns, MeasureTubes, shardTotals } from "./shard-totals.ts";

/** Only maps and arrays of plain values: no records, no extensions. */
const packr = new Packr({ useRecords: false, moreTypes: false, int64AsType: "number" });

/**
 * Questions that change jobs. If a job is missing, another client may have taken it a moment ago,
 * so their answers wait for all records: see docs/durability.md.
 */
const CHANGES: ReadonlySet<Verb> = new Set(["job-act", "bulk"]);

interface Question {
  readonly number: number;
  readonly isChange: boolean;
  readonly work: ControlWork;
}

export interface ControlHandlerOptions {
  readonly shard: ControlShard;
  /** The port to the HTTP thread. */
  readonly port: ReplyPort;
  readonly meter: LatencyMeter;
  /** Takes jobs that go to tubes on other shards. */
  readonly transferSender: TransferSender;
  /** Index of the session that holds leased jobs. */
  readonly leaseSession: number;
  readonly waiting: () => number;
  /** Returns the time of the wall clock, in ms. */
  readonly wallMs: () => number;
}

export class ControlHandler implements ControlAnswerer {
  readonly partBytesMax: number;
  readonly #options: ControlHandlerOptions;
  readonly #questions: Question[] = [];
  /** The number of the question being answered. */
  #number = 0;
  /** The last record before those that the answer waits for. */
  #recordsBefore = 0;

  constructor(options: ControlHandlerOptions) {
    this.#options = options;
    this.partBytesMax = options.port.payloadBytesMax;
    assert(this.partBytesMax > 0, "a part of an answer has room in a message");
  }

  /** Takes a question. Its bytes are valid only during the call. */
  take(number: number, bytes: Uint8Array): void {
    if (CHECKED)
      assert(!this.#questions.some((each) => each.number === number), "a question has a number of its own");
    // A copy, because the ring's bytes are gone when the work continues.
    const [verb, details] = packr.unpack(Buffer.from(bytes)) as [Verb, Questions[Verb]];
    const isChange = CHANGES.has(verb);
    this.#questions.push({ number, isChange, work: this.#begin(verb, details) });
  }

  /** Whether a slice could run now. */
  get hasWork(): boolean {
    return this.#nextAt >= 0 && this.#hasRoom;
  }

  /** Asks for room in the ring if a question waits for it. */
  wantRoom(): void {
    if (this.#nextAt >= 0) this.#options.port.ring.wantRoom();
  }

  /** Index of the next question that can continue; -1 if there is none. */
  get #nextAt(): number {
    return this.#questions.findIndex(({ work }) => work.isWaiting !== true);
  }

  get #hasRoom(): boolean {
    const { port } = this.#options;
    return port.ring.used <= port.ring.messageBytesMax && !port.blocked;
  }

  /** Runs a slice of one question. */
  step(): void {
    const at = this.#nextAt;
    if (at < 0 || !this.#hasRoom) return;
    const [question] = this.#questions.splice(at, 1) as [Question];
    this.#number = question.number;
    this.#recordsBefore = question.isChange ? 0 : (this.#options.shard.records?.lastNumber ?? 0);
    if (!question.work.step(this)) this.#questions.push(question);
  }

  value(value: unknown, isLast: boolean): void {
    const packed = packr.pack(value);
    this.bytes(packed, packed.length, isLast);
  }

  bytes(bytes: Uint8Array, length: number, isLast: boolean): void {
    assert(length <= bytes.length, "a part of an answer has its stated length");
    assert(length <= this.partBytesMax, "a part of an answer fits into a message");
    const { port, shard } = this.#options;
    const lastNumber = shard.records?.lastNumber ?? 0;
    const durable = lastNumber === this.#recordsBefore ? 0 : ResponseFlag.Durable;
    port.beginControl(durable | (isLast ? 0 : ResponseFlag.More), this.#number, length, lastNumber % 2 ** 32);
    copyBytes(port.target, port.at, bytes, 0, length);
  }

  #begin(verb: Verb, details: Questions[Verb]): ControlWork {
    const { shard } = this.#options;
    const start = this.#verbs[verb] as ((details: Questions[Verb]) => ControlWork) | undefined;
    shard.engine.runDue(shard.nowMs);
    if (start === undefined) throw new Error("broken invariant: the http thread asks a known question");
    return start(details);
  }

  readonly #verbs: { [Each in Verb]: (details: Questions[Each]) => ControlWork } = {
    ping: () => atOnce<"ping">(() => true),
    totals: () => atOnce<"totals">(() => this.#totals()),
    latency: () =>
      atOnce<"latency">(() => {
        const { wait, hold } = this.#options.meter;
        return { wait: wait.quantiles, hold: hold.quantiles };
      }),
    tubes: ({ name }) => new ListTubes(this.#options.shard, name),
    "tube-times": (question) => new MeasureTubes(this.#options.shard, this.#options.meter, question),
    job: ({ id, bodyMax }) =>
      atOnce<"job">(() => {
        const { engine, nowMs, portCount, records } = this.#options.shard;
        const slot = engine.find(id);
        if (slot === NO_SLOT) return null;
        const file = records?.fileOf(slot) ?? 0;
        return { ...jobFacts(engine, slot, nowMs, portCount, bodyMax, FAILURES_MAX), file };
      }),
    finished: ({ id }) =>
      atOnce<"finished">(() => {
        const { engine, nowMs } = this.#options.shard;
        const found = engine.policies.finished.find(id);
        // That it has ended may not be in the log yet.
        this.#recordsBefore = 0;
        return found === undefined ? null : { ...finishedFacts(found.job, nowMs), tube: found.tube };
      }),
    leases: ({ changes }) =>
      atOnce<"leases">(() => {
        const { shard, leaseSession } = this.#options;
        const outcomes = changes.map((change) => changeLease(shard, leaseSession, change));
        // That its job was cancelled may not be in the log yet.
        if (outcomes.some((outcome) => typeof outcome !== "boolean")) this.#recordsBefore = 0;
        return outcomes;
      }),
    "give-back": ({ jobs }) =>
      atOnce<"give-back">(() => {
        const { shard, leaseSession } = this.#options;
        return jobs.filter((job) => giveBackLease(shard, leaseSession, job.id, job.reserves)).length;
      }),
    browse: (question) => beginBrowse(this.#options.shard, question),
    bulk: (question) => new BulkWork(this.#options.shard, this.#options.transferSender, question),
    settings: (question) => new ListSettings(this.#options.shard, question),
    setting: ({ pattern }) => atOnce<"setting">(() => textOf(this.#options.shard, pattern)),
    "inspect-tube": ({ tube }) => atOnce<"inspect-tube">(() => inspectTube(this.#options.shard, tube)),
    "flow-signs": () => new ListFlowSigns(this.#options.shard, this.#options.wallMs()),
    cancel: ({ number }) => atOnce<"cancel">(() => this.#cancel(number)),
    "job-act": (question) => atOnce<"job-act">(() => actOnJob(this.#options.shard, question)),
    sessions: (question) => atOnce<"sessions">(() => sessionFacts(this.#options.shard, question)),
  };

  /** Ends the work on a question with the results so far. Returns false if it has already ended. */
  #cancel(number: number): boolean {
    const question = this.#questions.find((each) => each.number === number);
    question?.work.cancel?.();
    return question !== undefined;
  }

  #totals(): ShardTotals {
    const { shard, meter, leaseSession, waiting, wallMs } = this.#options;
    return shardTotals(shard, meter, { leaseSession, waiting: waiting(), wallMs: wallMs() });
  }
}

/** Returns work that takes one slice and one part. */
function atOnce<Asked extends Verb>(answer: () => Answers[Asked]): ControlWork {
  return {
    step(answerer) {
      answerer.value(answer(), true);
      return true;
    },
  };
}
