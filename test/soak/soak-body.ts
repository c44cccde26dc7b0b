// Bodies of the soak: a unique key, a checksum, and filler that follows from the key and the
// length.

import { crc32 } from "node:zlib";
import { SeededRandom } from "../support/seeded-random.ts";

const POOL_BYTES = 1 << 21;
/** Step between the starts of fillers; a prime, so that neighbours differ. */
const STRIDE = 7919;
const HEADER = /^k(\d+) ([0-9a-f]{8}) /;

const BODY_BYTES_MIN = 24;

/** Key, size and tube of a job, from which its body can be made again. */
export interface BodySpec {
  readonly key: number;
  readonly bytes: number;
  readonly tube: string;
  readonly ttrSeconds: number;
}

/** All byte values, CR LF among them. */
const pool = makePool();

function makePool(): Buffer {
  const bytes = Buffer.alloc(POOL_BYTES);
  const random = new SeededRandom(0x5eed);
  for (let at = 0; at < POOL_BYTES; at += 2) bytes.writeUInt16LE(random.between(0, 0xffff), at);
  return bytes;
}

/** The body with this key, at least `BODY_BYTES_MIN` bytes and at most 1 MiB. */
export function makeBody(key: number, bytes: number): Buffer {
  const start = (key * STRIDE) % (POOL_BYTES / 2);
  const keyText = `k${key} `;
  const fillerBytes = Math.max(bytes, BODY_BYTES_MIN) - keyText.length - 9;
  const filler = pool.subarray(start, start + fillerBytes);
  return Buffer.concat([Buffer.from(`${keyText}${crc32(filler).toString(16).padStart(8, "0")} `), filler]);
}

/** The key of a body that is whole, or undefined. */
export function keyOf(body: Buffer): number | undefined {
  const match = HEADER.exec(body.toString("latin1", 0, 40));
  if (match === null) return undefined;
  const filler = body.subarray(match[0].length);
  return crc32(filler) === Number.parseInt(match[2]!, 16) ? Number(match[1]) : undefined;
}
