// HMAC-SHA256 of leases (RFC 2104), built from two hashes: Node's own HMAC creates objects and
// takes several times as long.

import { hash } from "node:crypto";

const BLOCK_BYTES = 64;
const DIGEST_BYTES = 32;
/** Longer messages get a buffer of their own. */
const SCRATCH_BYTES = 512;

/**
 * Returns a function that computes the digest of `bytes` followed by `text`, as a string of 32
 * one-byte characters. `key` has at most 64 bytes.
 */
export function leaseMac(key: Uint8Array): (bytes: Uint8Array, text: string) => string {
  const inner = Buffer.alloc(BLOCK_BYTES + SCRATCH_BYTES);
  const outer = Buffer.alloc(BLOCK_BYTES + DIGEST_BYTES);
  for (let at = 0; at < BLOCK_BYTES; at++) {
    inner[at] = (key[at] ?? 0) ^ 0x36;
    outer[at] = (key[at] ?? 0) ^ 0x5c;
  }
  return (bytes, text) => {
    const textBytes = text === "" ? 0 : Buffer.byteLength(text);
    const length = BLOCK_BYTES + bytes.length + textBytes;
    const message = length <= inner.length ? inner : Buffer.concat([inner.subarray(0, BLOCK_BYTES)], length);
    message.set(bytes, BLOCK_BYTES);
    if (textBytes > 0) message.write(text, BLOCK_BYTES + bytes.length);
    outer.write(hash("sha256", message.subarray(0, length), "latin1"), BLOCK_BYTES, "latin1");
    return hash("sha256", outer, "latin1");
  };
}
