// Generates, hashes and compares secrets.

import { createHash, randomBytes, scrypt, timingSafeEqual } from "node:crypto";
import type { Proof, ScryptCost } from "./token-file.ts";

const SECRET_BYTES = 32;
const SALT_BYTES = 16;
const HASH_BYTES = 32;
const PREFIX = "rb1_";
/** Length of a generated secret: base64 without padding. */
export const SECRET_LENGTH = PREFIX.length + Math.ceil((SECRET_BYTES * 4) / 3);
const COST: ScryptCost = { N: 2 ** 15, r: 8, p: 1 };
/** Memory limit for scrypt, which needs 128 * N * r bytes. */
const SCRYPT_BYTES_MAX = 256 * 2 ** 20;

/** Returns a new secret: "rb1_" and 43 characters that encode 256 random bits. */
export function drawSecret(): string {
  return PREFIX + randomBytes(SECRET_BYTES).toString("base64url");
}

/** Tells whether the text begins as a generated secret, but has another length. */
export function isCutSecret(text: string): boolean {
  return text.startsWith(PREFIX) && text.length !== SECRET_LENGTH;
}

export function hashOf(secret: string): string {
  return createHash("sha256").update(secret).digest("hex");
}

/** Returns the proof of a secret that a person chose. */
export async function proofOfPassword(password: string): Promise<Proof> {
  const salt = randomBytes(SALT_BYTES).toString("base64url");
  const hash = await derive(password, salt, COST);
  return { kind: "scrypt", cost: COST, salt, hash: hash.toString("base64url") };
}

/**
 * Returns whether the password matches. Takes about 50 ms on a thread of libuv's pool, not on the
 * caller's.
 */
export async function isPassword(password: string, proof: Proof & { kind: "scrypt" }): Promise<boolean> {
  const hash = await derive(password, proof.salt, proof.cost);
  return timingSafeEqual(hash, Buffer.from(proof.hash, "base64url"));
}

/** Returns whether two hex hashes are equal, in constant time. */
export function sameHash(a: string, b: string): boolean {
  return a.length === b.length && timingSafeEqual(Buffer.from(a), Buffer.from(b));
}

function derive(password: string, salt: string, { N, r, p }: ScryptCost): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    scrypt(password, salt, HASH_BYTES, { N, r, p, maxmem: SCRYPT_BYTES_MAX }, (error, key) => {
      if (error === null) resolve(key);
      else reject(error);
    });
  });
}
