// Template of a batch of puts, built once per connection; before each write, only the timestamps
// change.
const TTR_SECONDS = 120;

/**
 * A body of at least this size begins with the time it is for: microseconds on the monotonic clock,
 * 16 digits.
 */
export const STAMP_BYTES = 16;

export function bodyTemplate(bodyBytes: number): Buffer {
  return Buffer.alloc(bodyBytes, "abcdefghijklmnopqrstuvwxyz012345");
}

function writeStamp(bytes: Buffer, at: number, micros: number): void {
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

/** 12 letters and digits: three of the connection, nine that count. */
const KEY_DIGITS = "abcdefghijklmnopqrstuvwxyz012345";
const KEY_BYTES = 12;
const KEY_NUMBER_BYTES = 9;
const KEY = KEY_DIGITS[0]!.repeat(KEY_BYTES);

function writeKey(bytes: Buffer, at: number, connection: number, number: number): void {
  let rest = number;
  for (let i = KEY_BYTES - 1; i >= 0; i--) {
    if (i === KEY_BYTES - KEY_NUMBER_BYTES - 1) rest = connection;
    const next = Math.floor(rest / KEY_DIGITS.length);
    bytes[at + i] = KEY_DIGITS.charCodeAt(rest - next * KEY_DIGITS.length);
    rest = next;
  }
}

/** Puts into a tube that each line names. */
export interface NamedPut {
  readonly tube: string;
  readonly hasKey: boolean;
  /** Whether the key is remembered for an hour. */
  readonly isRemembered: boolean;
  /** The number of the connection: no two connections of a run have the same keys. */
  readonly connection: number;
  /** The first number of its keys: no two runs have the same ones. */
  readonly firstKey: number;
}

export class PutTemplate {
  readonly #body: Buffer;
  readonly #unit: Buffer;
  readonly #stampOffset: number;
  readonly #named: NamedPut | undefined;
  readonly #keyOffset: number;
  #nextKey: number;
  #batch: Buffer;

  /** Without `named` into the tube in use. */
  constructor(body: Buffer, named?: NamedPut) {
    this.#body = body;
    this.#named = named?.hasKey === true ? named : undefined;
    this.#nextKey = named?.firstKey ?? 0;
    const facts = `0 0 ${TTR_SECONDS} ${body.length}`;
    const line = named === undefined ? `put ${facts}` : `put-in-tube ${named.tube} ${facts}`;
    const options = named?.hasKey === true ? ` unique=${KEY}` : "";
    const remembers = named?.isRemembered === true ? " unique-for=3600" : "";
    const header = Buffer.from(`${line}${options}${remembers}\r\n`);
    this.#keyOffset = line.length + options.length - KEY_BYTES;
    this.#unit = Buffer.concat([header, body, Buffer.from("\r\n")]);
    this.#stampOffset = header.length;
    this.#batch = Buffer.alloc(0);
  }

  /**
   * The bytes of `count` puts. They stay valid until the next call, so ask again only when all
   * replies have come.
   */
  batch(count: number, firstMs: number, gapMs: number): Buffer {
    const unitBytes = this.#unit.length;
    if (this.#batch.length < count * unitBytes) {
      this.#batch = Buffer.concat(Array.from({ length: count }, () => this.#unit));
    }
    for (let i = 0; i < count && this.#body.length >= STAMP_BYTES; i++) {
      writeStamp(this.#batch, i * unitBytes + this.#stampOffset, (firstMs + i * gapMs) * 1000);
    }
    for (let i = 0; i < count && this.#named !== undefined; i++)
      writeKey(this.#batch, i * unitBytes + this.#keyOffset, this.#named.connection, this.#nextKey++);
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
