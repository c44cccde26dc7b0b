// Sessions of browsers: a cookie replaces the token, so no page has to store it.

import { randomBytes } from "node:crypto";
import type { Identity } from "../../../access/identity.ts";
import { hashOf } from "../../../access/secrets.ts";

const SESSION_MS = 12 * 3_600_000;
/** Beyond this count, the oldest session ends. */
const SESSIONS_MAX = 10_000;
const COOKIE = "runnerbean_session";

interface Session {
  readonly identity: Identity;
  readonly endsAtMs: number;
}

export class Sessions {
  /** Sessions by the hash of the secret in the cookie. */
  readonly #sessions = new Map<string, Session>();

  /** Begins a session and returns the Set-Cookie header. */
  begin(identity: Identity, nowMs: number, isSecure: boolean): string {
    const secret = randomBytes(32).toString("base64url");
    this.#sessions.set(hashOf(secret), { identity, endsAtMs: nowMs + SESSION_MS });
    if (this.#sessions.size > SESSIONS_MAX) {
      for (const oldest of this.#sessions.keys()) {
        this.#sessions.delete(oldest);
        break;
      }
    }
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
    this.#sessions.delete(key);
    return undefined;
  }

  /** Ends a session and returns the Set-Cookie header. */
  end(cookies: string | undefined): string {
    const secret = secretOf(cookies);
    if (secret !== undefined) this.#sessions.delete(hashOf(secret));
    return cookieText("", 0, false);
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
