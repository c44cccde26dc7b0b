// Sessions of browsers: a cookie replaces the token, so no page has to store it.

import { randomBytes } from "node:crypto";
import type { Identity } from "../../../access/identity.ts";
import { hashOf } from "../../../access/secrets.ts";

const SESSION_MS = 12 * 3_600_000;
/**
 * Beyond this count, the oldest session of the token with the most sessions ends: however often a
 * token signs in, it ends no session of a token with fewer.
 */
const SESSIONS_MAX = 10_000;
const COOKIE = "runnerbean_session";

interface Session {
  readonly identity: Identity;
  readonly endsAtMs: number;
}

export class Sessions {
  /** Sessions by the hash of the secret in the cookie. */
  readonly #sessions = new Map<string, Session>();
  /** Keys of the sessions of each token, oldest first, by the token's name. */
  readonly #byToken = new Map<string, Set<string>>();

  /** Begins a session and returns the Set-Cookie header. */
  begin(identity: Identity, nowMs: number, isSecure: boolean): string {
    const secret = randomBytes(32).toString("base64url");
    const key = hashOf(secret);
    this.#sessions.set(key, { identity, endsAtMs: nowMs + SESSION_MS });
    const own = this.#byToken.get(identity.name);
    if (own === undefined) this.#byToken.set(identity.name, new Set([key]));
    else own.add(key);
    if (this.#sessions.size > SESSIONS_MAX) this.#endOldest();
    return cookieText(secret, SESSION_MS / 1000, isSecure);
  }

  /**
   * Returns the identity behind the Cookie header. `stands` tells whether its token is still valid.
   */
  find(
    cookies: string | undefined,
    nowMs: number,
    stands: (identity: Identity) => boolean,
  ): Identity | undefined {
    const secret = secretOf(cookies);
    if (secret === undefined) return undefined;
    const key = hashOf(secret);
    const session = this.#sessions.get(key);
    if (session === undefined) return undefined;
    if (session.endsAtMs > nowMs && stands(session.identity)) return session.identity;
    this.#forget(key, session);
    return undefined;
  }

  /** Ends a session and returns the Set-Cookie header. */
  end(cookies: string | undefined): string {
    const secret = secretOf(cookies);
    const key = secret === undefined ? "" : hashOf(secret);
    const session = this.#sessions.get(key);
    if (session !== undefined) this.#forget(key, session);
    return cookieText("", 0, false);
  }

  #endOldest(): void {
    let most: ReadonlySet<string> = new Set();
    for (const keys of this.#byToken.values()) if (keys.size > most.size) most = keys;
    const [oldest] = most;
    this.#forget(oldest!, this.#sessions.get(oldest!)!);
  }

  #forget(key: string, { identity }: Session): void {
    this.#sessions.delete(key);
    const own = this.#byToken.get(identity.name)!;
    own.delete(key);
    if (own.size === 0) this.#byToken.delete(identity.name);
  }
}

function cookieText(value: string, seconds: number, isSecure: boolean): string {
  return `${COOKIE}=${value}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Strict${isSecure ? "; Secure" : ""}`;
}

function secretOf(cookies: string | undefined): string | undefined {
  for (const cookie of cookies?.split(";") ?? []) {
    const [name, value] = cookie.trim().split("=");
    if (name === COOKIE && value !== undefined && /^[\w-]{43}$/.test(value)) return value;
  }
  return undefined;
}
