// Asks shards by Control messages, and gives their answers when what they tell of is in the log.

import { Packr } from "msgpackr/pack";
import type { AcceptorCore, ControlAnswer, ControlAnswers } from "../../acceptor/connection/acceptor-core.ts";
import type { RunQueueEntry } from "../../acceptor/state/run-queues.ts";
import type { Answers, Questions, Verb } from "../../message/control.ts";
import { RequestOp } from "../../message/request.ts";
import { ResponseFlag } from "../../message/response.ts";
import { Busy } from "./busy.ts";

/** Questions under way; further ones are refused. */
const UNDER_WAY_MAX = 1000;
/**
 * Questions that are never refused, since nobody could ask them again: what gives something back, and what tells whether a
 * shard lives. Each shard has one give-back and one ping under way at most, and each task one cancel.
 */
const ALWAYS_TAKEN: ReadonlySet<Verb> = new Set(["give-back", "ping", "cancel"]);

/** Maps and arrays of plain values only: no records, no extensions. */
const packr = new Packr({ useRecords: false, moreTypes: false, int64AsType: "number" });

interface Asked {
  onPart(bytes: Uint8Array): void;
  onEnd(): void;
  /** Parts that are held, and the record that the last of them waits for. */
  held: number;
  heldRecord: number;
}

interface HeldPart {
  readonly shard: number;
  readonly recordNumber: number;
  readonly deliver: () => void;
}

export class ControlClient implements ControlAnswers, RunQueueEntry {
  dirty = false;
  waitsForRoom = false;
  proceedsLater = false;
  held = false;
  readonly #core: AcceptorCore;
  readonly #wake: () => void;
  readonly #asked = new Map<number, Asked>();
  #heldParts: HeldPart[] = [];
  #lastNumber = 0;

  /** `wake` has the loop take a turn soon. */
  constructor(core: AcceptorCore, wake: () => void) {
    this.#core = core;
    this.#wake = wake;
    core.control = this;
  }

  get shards(): number {
    return this.#core.shards;
  }

  /** Bytes of a question, at most. */
  get questionBytesMax(): number {
    return this.#core.payloadBytesMax;
  }

  /** Questions that are not answered yet. */
  get underWay(): number {
    return this.#asked.size;
  }

  /** Asks one shard; the answer comes when what it tells of is durable. */
  ask<Each extends Verb>(shard: number, verb: Each, details: Questions[Each]): Promise<Answers[Each]> {
    let answer: Answers[Each];
    return this.askParts(shard, verb, details, (bytes) => {
      answer = packr.unpack(bytes) as Answers[Each];
    }).then(() => answer);
  }

  /** Asks all shards; their answers by the number of the shard. */
  askAll<Each extends Verb>(verb: Each, details: Questions[Each]): Promise<Answers[Each][]> {
    return Promise.all(Array.from({ length: this.shards }, (_, shard) => this.ask(shard, verb, details)));
  }

  /** Asks one shard; `onPart` gets each part of the answer, to keep. */
  askParts<Each extends Verb>(
    shard: number,
    verb: Each,
    details: Questions[Each],
    onPart: (bytes: Uint8Array) => void,
  ): Promise<void> {
    return this.begin(shard, verb, details, onPart).done;
  }

  /** The same for a question that may be cancelled: by its number. */
  begin<Each extends Verb>(
    shard: number,
    verb: Each,
    details: Questions[Each],
    onPart: (bytes: Uint8Array) => void,
  ): { number: number; done: Promise<void> } {
    if (this.#asked.size >= UNDER_WAY_MAX && !ALWAYS_TAKEN.has(verb))
      return { number: 0, done: Promise.reject(new Busy("too many questions are under way")) };
    const packed = packr.pack([verb, details]);
    if (packed.length > this.#core.payloadBytesMax)
      return { number: 0, done: Promise.reject(new Busy("the question is too long for one message")) };
    const number = ++this.#lastNumber;
    const message = this.#core.message(RequestOp.Control);
    message.slot = 0;
    message.id = number;
    message.body.set(packed, 0, packed.length);
    this.#core.post(shard, message);
    this.#wake();
    const done = new Promise<void>((resolve) =>
      this.#asked.set(number, { onPart, onEnd: resolve, held: 0, heldRecord: 0 }),
    );
    return { number, done };
  }

  /** The value of a part of an answer. */
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
    const isHeld = (flags & ResponseFlag.Durable) !== 0 && !this.#core.isDurable(shard, recordNumber);
    // Parts of an answer stay in their order.
    if (!isHeld && asked.held === 0) {
      deliver();
      return;
    }
    asked.held++;
    if (isHeld) asked.heldRecord = recordNumber;
    const deliverHeld = (): void => {
      asked.held--;
      deliver();
    };
    this.#heldParts.push({ shard, recordNumber: asked.heldRecord, deliver: deliverHeld });
    this.#core.agenda.holdBack(this);
  }

  get mayFlushHeld(): boolean {
    return this.#heldParts.some(({ shard, recordNumber }) => this.#core.isDurable(shard, recordNumber));
  }

  proceed(): void {}

  flush(): void {
    const parts = this.#heldParts;
    this.#heldParts = [];
    for (const part of parts) {
      if (this.#core.isDurable(part.shard, part.recordNumber)) part.deliver();
      else this.#heldParts.push(part);
    }
    if (this.#heldParts.length > 0) this.#core.agenda.holdBack(this);
  }
}
