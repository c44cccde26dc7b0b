// Client for Control messages: sends questions to shards, and holds an answer until the change that
// it reports is durable.

import { Packr } from "msgpackr/pack";
import type { AcceptorCore } from "../../acceptor/connection/acceptor-core.ts";
import type { RunQueueEntry } from "../../acceptor/state/run-queues.ts";
import type { ControlAnswer, ControlAnswers } from "../../acceptor/state/shard-links.ts";
import type { Answers, Questions, Verb } from "../../message/control.ts";
import { ControlView, RequestOp } from "../../message/request.ts";
import { ResponseFlag } from "../../message/response.ts";

/** Error for overload: the server has no capacity now, and the client should retry in a moment. */
export class Busy extends Error {}

// Queue for memory-hungry work: runs one item at a time when many clients ask at once.

/**
 * Maximum queue length. Each entry holds its request, and entries of disconnected clients stay
 * until their turn.
 */
const WAITING_MAX = 1000;

export class AsyncQueue {
  #last: Promise<unknown> = Promise.resolve();
  #waiting = 0;

  /**
   * Runs `work` once all earlier work has ended, successfully or not. Throws Busy if the queue is
   * full, or if the client is gone when its turn comes.
   */
  async run<Made>(asker: { readonly destroyed: boolean }, work: () => Promise<Made>): Promise<Made> {
    if (this.#waiting === WAITING_MAX) throw new Busy("Too many clients request this at a time");
    this.#waiting++;
    const made = this.#last.then(() => {
      this.#waiting--;
      if (asker.destroyed) throw new Busy("The client has disconnected");
      return work();
    });
    this.#last = made.catch(() => {});
    return await made;
  }
}

/** Maximum of questions in progress; more are refused. */
const UNDER_WAY_MAX = 1000;
/**
 * Questions that are never refused, because nothing would repeat them: they give something back or
 * check whether a shard is alive. At any time, each shard has at most one give-back and one ping,
 * and each task one cancel.
 */
const ALWAYS_TAKEN: ReadonlySet<Verb> = new Set(["give-back", "ping", "cancel"]);

/** Plain maps and arrays only: no records, no extensions. */
const packr = new Packr({ useRecords: false, moreTypes: false, int64AsType: "number" });

interface Asked {
  onPart(bytes: Uint8Array): void;
  onEnd(): void;
  /** Number of parts that wait for the log, and the record that the last one waits for. */
  waiting: number;
  lastRecord: number;
}

interface WaitingPart {
  readonly shard: number;
  readonly recordNumber: number;
  readonly deliver: () => void;
}

export class ControlClient implements ControlAnswers, RunQueueEntry {
  dirty = false;
  waitsForRoom = false;
  proceedsLater = false;
  waitsForLog = false;
  readonly #core: AcceptorCore;
  readonly #wake: () => void;
  readonly #asked = new Map<number, Asked>();
  #waitingParts: WaitingPart[] = [];
  #lastNumber = 0;

  /** `wake` makes the loop take a turn soon. */
  constructor(core: AcceptorCore, wake: () => void) {
    this.#core = core;
    this.#wake = wake;
    core.control = this;
  }

  get shards(): number {
    return this.#core.shards;
  }

  /** Maximum size of a question, in bytes. */
  get questionBytesMax(): number {
    return this.#core.links.payloadBytesMax;
  }

  /** Questions without an answer so far. */
  get underWay(): number {
    return this.#asked.size;
  }

  /** Asks one shard. The promise resolves once the reported change is durable. */
  ask<Each extends Verb>(shard: number, verb: Each, details: Questions[Each]): Promise<Answers[Each]> {
    let answer: Answers[Each];
    return this.askParts(shard, verb, details, (bytes) => {
      answer = packr.unpack(bytes) as Answers[Each];
    }).then(() => answer);
  }

  /** Asks all shards and returns their answers by shard number. */
  askAll<Each extends Verb>(verb: Each, details: Questions[Each]): Promise<Answers[Each][]> {
    return Promise.all(Array.from({ length: this.shards }, (_, shard) => this.ask(shard, verb, details)));
  }

  /** Asks one shard. `onPart` receives each part of the answer, and may keep it. */
  askParts<Each extends Verb>(
    shard: number,
    verb: Each,
    details: Questions[Each],
    onPart: (bytes: Uint8Array) => void,
  ): Promise<void> {
    return this.begin(shard, verb, details, onPart).done;
  }

  /** Does the same for a question that may be cancelled by its number. */
  begin<Each extends Verb>(
    shard: number,
    verb: Each,
    details: Questions[Each],
    onPart: (bytes: Uint8Array) => void,
  ): { number: number; done: Promise<void> } {
    if (this.#asked.size >= UNDER_WAY_MAX && !ALWAYS_TAKEN.has(verb))
      return { number: 0, done: Promise.reject(new Busy("too many questions are under way")) };
    const packed = packr.pack([verb, details]);
    if (packed.length > this.#core.links.payloadBytesMax)
      return { number: 0, done: Promise.reject(new Busy("the question is too long for one message")) };
    const number = ++this.#lastNumber;
    const message = this.#core.links.message(RequestOp.Control);
    ControlView.fill(message, number);
    message.body.set(packed, 0, packed.length);
    this.#core.links.post(shard, message);
    this.#wake();
    const done = new Promise<void>((resolve) =>
      this.#asked.set(number, { onPart, onEnd: resolve, waiting: 0, lastRecord: 0 }),
    );
    return { number, done };
  }

  /** Decodes a part of an answer. */
  valueOf<Each extends Verb>(part: Uint8Array): Answers[Each] {
    return packr.unpack(part) as Answers[Each];
  }

  onAnswer({ shard, flags, number, recordNumber, payload }: ControlAnswer): void {
    const asked = this.#asked.get(number);
    if (asked === undefined) return;
    const bytes = Buffer.from(payload);
    const isLast = (flags & ResponseFlag.More) === 0;
    if (isLast) this.#asked.delete(number);
    const deliver = (): void => {
      asked.onPart(bytes);
      if (isLast) asked.onEnd();
    };
    const mustWait = (flags & ResponseFlag.Durable) !== 0 && !this.#core.log.isLogged(shard, recordNumber);
    // Parts of an answer stay in order.
    if (!mustWait && asked.waiting === 0) {
      deliver();
      return;
    }
    asked.waiting++;
    if (mustWait) asked.lastRecord = recordNumber;
    const deliverWaiting = (): void => {
      asked.waiting--;
      deliver();
    };
    this.#waitingParts.push({ shard, recordNumber: asked.lastRecord, deliver: deliverWaiting });
    this.#core.runQueues.waitForLog(this);
  }

  get isDurable(): boolean {
    return this.#waitingParts.some(({ shard, recordNumber }) => this.#core.log.isLogged(shard, recordNumber));
  }

  proceed(): void {}

  flush(): void {
    const parts = this.#waitingParts;
    this.#waitingParts = [];
    for (const part of parts) {
      if (this.#core.log.isLogged(part.shard, part.recordNumber)) part.deliver();
      else this.#waitingParts.push(part);
    }
    if (this.#waitingParts.length > 0) this.#core.runQueues.waitForLog(this);
  }
}

// Liveness check of the shards: pings each one every 5 s, and reports those that have not answered
// for 30 s.

/** A shard that is silent for this long is stuck, and only a restart helps. */
export const SILENT_MS_MAX = 30_000;

export class Liveness {
  readonly #control: ControlClient;
  readonly #nowMs: () => number;
  /** Time of each shard's unanswered ping; Infinity if there is none. */
  readonly #askedAtMs: number[];

  constructor(control: ControlClient, nowMs: () => number) {
    this.#control = control;
    this.#nowMs = nowMs;
    this.#askedAtMs = Array.from({ length: control.shards }, () => Number.POSITIVE_INFINITY);
  }

  /** Pings the shards that answered the last ping. */
  ping(): void {
    for (const [shard, askedAtMs] of this.#askedAtMs.entries()) {
      if (askedAtMs !== Number.POSITIVE_INFINITY) continue;
      this.#askedAtMs[shard] = this.#nowMs();
      // Pings are never refused, so only the shard's answer ends the silence.
      void this.#control.ask(shard, "ping", undefined).then(() => {
        this.#askedAtMs[shard] = Number.POSITIVE_INFINITY;
      });
    }
  }

  /** Returns the shards that have been silent for too long. */
  get silent(): number[] {
    const nowMs = this.#nowMs();
    return [...this.#askedAtMs.keys()].filter((shard) => nowMs - this.#askedAtMs[shard]! > SILENT_MS_MAX);
  }
}
