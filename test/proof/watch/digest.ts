// Digest of a run: equal digests mean that the same threads took the same steps and that the
// server sent the same bytes.

const PRIME = 0x01000193;

export class Digest {
  #low = 0x811c9dc5;
  #high = 0x9747b28c;

  /** Adds one number, to a resolution of a millionth. */
  number(value: number): void {
    const scaled = Math.round(value * 1e6);
    this.#mix(scaled % 0x1_0000_0000);
    this.#mix(Math.floor(scaled / 0x1_0000_0000));
  }

  text(value: string): void {
    for (let at = 0; at < value.length; at++) this.#mix(value.charCodeAt(at));
    this.#mix(-1);
  }

  bytes(value: Uint8Array): void {
    for (const byte of value) this.#mix(byte);
    this.#mix(-1);
  }

  #mix(value: number): void {
    this.#low = Math.imul(this.#low ^ value, PRIME);
    this.#high = Math.imul(this.#high ^ value ^ (this.#low >>> 15), 0x85ebca6b);
  }

  get hex(): string {
    const half = (word: number): string => (word >>> 0).toString(16).padStart(8, "0");
    return half(this.#high) + half(this.#low);
  }
}
