// The words by which the log gets records again that it can't read: it names parts of live jobs,
// and each shard records those of its own jobs once more, from memory.

import { assert } from "../base/assert.ts";

/** A part of a job: its PUT, or a piece of its body. */
export interface JobPart {
  readonly id: number;
  /** Offset of the piece in the body; -1 for the PUT. */
  readonly from: number;
  /** Bytes of the piece; for the PUT, those of the body that are in pieces. */
  readonly bytes: number;
}

/** Maximum number of parts in one request. */
export const RESTATED_MAX = 64;
/** The words at the beginning of the buffer. */
const ASKED = 0;
const COUNT = 1;
/** Segments below this one hold damage, so that the log must rewrite them. */
const REWRITE_BELOW = 16;
/** Float64 words: the parts follow the first cache lines, the answers of the shards the parts. */
const PARTS_AT = 16;
const PART_WORDS = 3;
const ANSWERS_AT = 2 * (PARTS_AT + PART_WORDS * RESTATED_MAX);
const ANSWER_WORDS = 16;

export class RestateWords {
  readonly #words: Int32Array;
  readonly #parts: Float64Array;
  readonly #shards: number;

  constructor(buffer: SharedArrayBuffer, shards: number) {
    assert(buffer.byteLength === RestateWords.bytesFor(shards), "each shard has a word for its answer");
    this.#words = new Int32Array(buffer);
    this.#parts = new Float64Array(buffer, 0, PARTS_AT + PART_WORDS * RESTATED_MAX);
    this.#shards = shards;
  }

  static bytesFor(shards: number): number {
    return 4 * (ANSWERS_AT + ANSWER_WORDS * shards);
  }

  /** Any thread: asks the log to rewrite this segment and those before it. */
  rewrite(segment: number): void {
    for (;;) {
      const below = Atomics.load(this.#words, REWRITE_BELOW);
      if (segment < below) return;
      if (Atomics.compareExchange(this.#words, REWRITE_BELOW, below, segment + 1) === below) return;
    }
  }

  get rewriteBelow(): number {
    return Atomics.load(this.#words, REWRITE_BELOW);
  }

  /** The log: whether all shards have answered the last request. */
  get isAnswered(): boolean {
    const asked = this.asked;
    for (let shard = 0; shard < this.#shards; shard++)
      if (Atomics.load(this.#words, ANSWERS_AT + ANSWER_WORDS * shard) !== asked) return false;
    return true;
  }

  /** The log: asks for parts. Ring the shards' bells afterwards. */
  ask(parts: readonly JobPart[]): void {
    assert(this.isAnswered, "the log asks for one batch of parts at a time");
    assert(parts.length > 0 && parts.length <= RESTATED_MAX, "a request has room for its parts");
    for (const [index, { id, from, bytes }] of parts.entries())
      this.#parts.set([id, from, bytes], PARTS_AT + PART_WORDS * index);
    this.#words[COUNT] = parts.length;
    Atomics.store(this.#words, ASKED, (this.asked + 1) | 0);
  }

  /** The number of the last request. */
  get asked(): number {
    return Atomics.load(this.#words, ASKED);
  }

  /** A shard: the parts of the last request. */
  get parts(): JobPart[] {
    return Array.from({ length: this.#words[COUNT]! }, (_, index) => {
      const at = PARTS_AT + PART_WORDS * index;
      return { id: this.#parts[at]!, from: this.#parts[at + 1]!, bytes: this.#parts[at + 2]! };
    });
  }

  /** A shard: it has recorded its parts of the request. */
  answer(shard: number, asked: number): void {
    assert(shard < this.#shards, "a shard has its own word");
    Atomics.store(this.#words, ANSWERS_AT + ANSWER_WORDS * shard, asked);
  }
}
