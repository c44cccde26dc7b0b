// The bytes of a batch of puts, made once for a connection; before each sending only the time stamps change.
export const TTR_SECONDS = 120;

/** A body of at least this size begins with the time it is for: microseconds on the monotonic clock, 16 digits. */
export const STAMP_BYTES = 16;

export function bodyTemplate(bodyBytes: number): Buffer {
  return Buffer.alloc(bodyBytes, "abcdefghijklmnopqrstuvwxyz012345");
}

export function writeStamp(bytes: Buffer, at: number, micros: number): void {
  let rest = Math.round(micros);
  for (let i = at + STAMP_BYTES - 1; i >= at; i--) {
    const next = Math.floor(rest / 10);
    bytes[i] = 48 + (rest - next * 10);
    rest = next;
  }
}

/** NaN if the bytes are no stamp. */
export function readStamp(bytes: Buffer, at: number): number {
  let micros = 0;
  for (let i = at; i < at + STAMP_BYTES; i++) {
    const digit = bytes[i]! - 48;
    if (digit < 0 || digit > 9) return Number.NaN;
    micros = micros * 10 + digit;
  }
  return micros;
}

export class PutTemplate {
  readonly #body: Buffer;
  readonly #unit: Buffer;
  readonly #stampOffset: number;
  #batch: Buffer;

  constructor(body: Buffer) {
    this.#body = body;
    const header = Buffer.from(`put 0 0 ${TTR_SECONDS} ${body.length}\r\n`);
    this.#unit = Buffer.concat([header, body, Buffer.from("\r\n")]);
    this.#stampOffset = header.length;
    this.#batch = Buffer.alloc(0);
  }

  /** The bytes of `count` puts. They stay valid until the next call, so ask again only when all replies have come. */
  batch(count: number, firstMs: number, gapMs: number): Buffer {
    const unitBytes = this.#unit.length;
    if (this.#batch.length < count * unitBytes) {
      this.#batch = Buffer.concat(Array.from({ length: count }, () => this.#unit));
    }
    for (let i = 0; i < count && this.#body.length >= STAMP_BYTES; i++) {
      writeStamp(this.#batch, i * unitBytes + this.#stampOffset, (firstMs + i * gapMs) * 1000);
    }
    return this.#batch.subarray(0, count * unitBytes);
  }

  /** One put with its own delay and stamp. */
  single(delaySeconds: number, stampMs: number): Buffer {
    const header = `put 0 ${delaySeconds} ${TTR_SECONDS} ${this.#body.length}\r\n`;
    const bytes = Buffer.concat([Buffer.from(header), this.#body, Buffer.from("\r\n")]);
    if (this.#body.length >= STAMP_BYTES) writeStamp(bytes, header.length, stampMs * 1000);
    return bytes;
  }
}
