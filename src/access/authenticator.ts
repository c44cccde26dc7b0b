// Authenticates clients by a token, by a name and password, or by the names in a certificate.

import type { CostlyCheck } from "./client-address.ts";
import type { Identity } from "./identity.ts";
import { hashOf, isPassword, sameHash } from "./secrets.ts";
import { type Proof, type Token, tokenLine } from "./token-file.ts";

/** Maximum number of concurrent password checks: each takes 32 MiB and 50 ms. */
const CHECKS_MAX = 4;
/**
 * Maximum number of checks that wait for a slot; more are refused. After a restart of the server,
 * many clients reconnect at once.
 */
const WAITING_MAX = 1000;
/** A longer secret can't be valid and is not hashed. */
const SECRET_LENGTH_MAX = 256;

export class Authenticator {
  readonly #byHash = new Map<string, Token>();
  readonly #byName = new Map<string, Token>();
  /** Results of `stillValid`, which runs for each command. */
  readonly #standing = new WeakMap<Identity, boolean>();
  #checks = 0;
  readonly #waiting: (() => void)[] = [];
  readonly #waitingMax: number;

  /** At most `waitingMax` password checks wait for a slot. */
  constructor(tokens: readonly Token[], waitingMax: number = WAITING_MAX) {
    this.#waitingMax = waitingMax;
    for (const token of tokens) {
      this.#byName.set(token.name, token);
      if (token.proof.kind === "sha256") this.#byHash.set(token.proof.hash, token);
    }
  }

  /** Returns the identity that owns the secret; `nowMs` is Unix time. */
  byToken(secret: string, nowMs: number): Identity | undefined {
    if (secret.length > SECRET_LENGTH_MAX) return undefined;
    const hash = hashOf(secret);
    const token = this.#byHash.get(hash);
    if (token?.proof.kind !== "sha256" || !sameHash(token.proof.hash, hash)) return undefined;
    return valid(token, nowMs);
  }

  /**
   * Returns the identity for a name and its secret, generated or chosen, as in HTTP's Basic. A
   * chosen secret takes a costly check.
   */
  byPassword(name: string, secret: string, nowMs: number): Identity | undefined | CostlyCheck<Identity> {
    const token = this.#byName.get(name);
    if (token === undefined || secret.length > SECRET_LENGTH_MAX) return undefined;
    const { proof } = token;
    if (proof.kind === "sha256")
      return sameHash(proof.hash, hashOf(secret)) ? valid(token, nowMs) : undefined;
    if (proof.kind !== "scrypt") return undefined;
    const check = async (): Promise<Identity | undefined> =>
      (await this.#checkPassword(secret, proof)) ? valid(token, nowMs) : undefined;
    return { guess: hashOf(`${proof.hash} ${secret}`), check };
  }

  async #checkPassword(secret: string, proof: Proof & { kind: "scrypt" }): Promise<boolean> {
    if (this.#checks >= CHECKS_MAX) {
      if (this.#waiting.length >= this.#waitingMax) return false;
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    } else this.#checks++;
    try {
      return await isPassword(secret, proof);
    } finally {
      // Hands the slot to the next check.
      const next = this.#waiting.shift();
      if (next === undefined) this.#checks--;
      else next();
    }
  }

  /**
   * Returns the identity of the first certificate name that has a line in the token file. TLS has
   * already verified the certificate itself.
   */
  byCertificate(names: readonly string[], nowMs: number): Identity | undefined {
    for (const name of names) {
      const token = this.#byName.get(name);
      if (token?.proof.kind === "certificate") return valid(token, nowMs);
    }
    return undefined;
  }

  /**
   * Returns whether the token file still contains the line of `identity`, unchanged and not
   * expired.
   */
  stillValid(identity: Identity, nowMs: number): boolean {
    let stands = this.#standing.get(identity);
    if (stands === undefined) {
      const token = this.#byName.get(identity.name);
      stands = token !== undefined && isSameToken(identity, token);
      this.#standing.set(identity, stands);
    }
    return stands && identity.expiresAtMs > nowMs;
  }
}

/**
 * Returns whether both come from the same line of the token file, before and after it was read
 * again.
 */
export const isSameToken = (one: Identity, other: Identity): boolean =>
  one === other ||
  ("proof" in one && "proof" in other && tokenLine(one as Token) === tokenLine(other as Token));

const valid = (token: Token, nowMs: number): Identity | undefined =>
  token.expiresAtMs > nowMs ? token : undefined;
