// Flags that all threads share and that change rarely.

import { assert } from "../base/assert.ts";

export class ControlWords {
  readonly words: Int32Array;

  constructor(buffer: SharedArrayBuffer) {
    this.words = new Int32Array(buffer);
  }

  isSet(word: number): boolean {
    return Atomics.load(this.words, word) !== 0;
  }

  set(word: number): void {
    assert(word < this.words.length, "a flag to set lies in its memory");
    Atomics.store(this.words, word, 1);
  }

  clear(word: number): void {
    assert(word < this.words.length, "a flag to clear lies in its memory");
    Atomics.store(this.words, word, 0);
  }
}
