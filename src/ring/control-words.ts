// Flags that all threads share and that change rarely.

export class ControlWords {
  readonly words: Int32Array;

  constructor(buffer: SharedArrayBuffer) {
    this.words = new Int32Array(buffer);
  }

  isSet(word: number): boolean {
    return Atomics.load(this.words, word) !== 0;
  }

  set(word: number): void {
    Atomics.store(this.words, word, 1);
  }

  clear(word: number): void {
    Atomics.store(this.words, word, 0);
  }
}
