// Sessions of browsers: a cookie replaces the token, so no page has to store it.

import { randomBytes } from "node:crypto";
import type { ServerResponse } from "node:http";
import type { FastifyReply, FastifyRequest } from "fastify";
import { Type } from "typebox";
import { Authenticator } from "../../access/authenticator.ts";
import { type CostlyCheck, FailureLimit } from "../../access/client-address.ts";
import { Permission as Bit, type Identity, mayTouchTube, permissionNames } from "../../access/identity.ts";
import { hashOf } from "../../access/secrets.ts";
import type { Token } from "../../access/token-file.ts";
import { type Api, answers, type Permission, type Routes } from "../api/api.ts";
import { Problem, type ProblemCode } from "../api/problem.ts";
import { RequestRate } from "../limits/request-limit.ts";

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

// Delay of refusals for clients without a valid token. A refusal takes one turn of the loop. A
// valid request takes several, because it also waits for its shard. A client that repeats its
// request after each refusal would therefore get more turns than others with valid tokens.

/** Refusals of an address and second that are sent at once. */
const AT_ONCE_PER_SECOND = 50;
/** Delay of each further one, in ms. */
const LATER_MS = 1000;

export class SlowRefusals {
  readonly #atOnce = new RequestRate(AT_ONCE_PER_SECOND);
  readonly #nowMs: () => number;
  /** The ends of the delays in progress. */
  readonly #waiting = new Set<() => void>();
  #hasEnded = false;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Resolves when a refusal may be sent to the address, or when its client has disconnected. */
  async wait(address: string, answer: ServerResponse): Promise<void> {
    if (this.#hasEnded || answer.destroyed || this.#atOnce.take(address, this.#nowMs())) return;
    await new Promise<void>((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        this.#waiting.delete(end);
        resolve();
      };
      const timer = setTimeout(end, LATER_MS);
      this.#waiting.add(end);
      answer.on("close", end);
    });
  }

  /** Ends all delays for good, because the server stops. */
  end(): void {
    this.#hasEnded = true;
    for (const end of this.#waiting) end();
  }
}

// Waiting requests that end once their token is revoked or expires.

/** Interval of the check for expired tokens, ms. */
const LOOK_EACH_MS = 1000;

interface StandingWait {
  /** Tells whether the token is still valid. */
  readonly stands: () => boolean;
  readonly end: () => void;
}

export class StandingWaits {
  readonly #waits = new Set<StandingWait>();
  #timer: NodeJS.Timeout | undefined;

  /** Watches a wait until the returned function is called. */
  add(wait: StandingWait): () => void {
    this.#waits.add(wait);
    this.#timer ??= setInterval(() => this.look(), LOOK_EACH_MS).unref();
    return () => this.#remove(wait);
  }

  /** Ends the waits whose token is no longer valid. */
  look(): void {
    for (const wait of this.#waits) {
      if (wait.stands()) continue;
      this.#remove(wait);
      wait.end();
    }
  }

  #remove(wait: StandingWait): void {
    this.#waits.delete(wait);
    if (this.#waits.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}

// Authenticates and authorises HTTP requests by token, by name and secret, by client certificate or
// by session. Without tokens, every request may do everything.

const BITS: Readonly<Record<Permission, number>> = {
  metrics: Bit.Metrics,
  view: Bit.View,
  bodies: Bit.Bodies,
  put: Bit.Put,
  work: Bit.Work,
  manage: Bit.Manage,
  admin: Bit.Admin,
};

declare module "fastify" {
  interface FastifyRequest {
    identity?: Identity;
    /**
     * Tells whether the token, and the session if there is one, is still valid; for long responses.
     */
    stands?: () => boolean;
    /** Calls `end` once either is no longer valid, unless the returned function is called first. */
    onRevoked?: (end: () => void) => () => void;
  }
}

/**
 * Routes without a tube in the request that a token limited to tubes may still call. A lease is
 * checked against its owner, task routes check the task's tube, and the route of events checks each
 * path. The health says nothing of tubes.
 */
const CHECKED_ELSEWHERE: ReadonlySet<string> = new Set([
  "/v1/leases",
  "/v1/leases/:lease/delete",
  "/v1/leases/:lease/release",
  "/v1/leases/:lease/bury",
  "/v1/leases/:lease/touch",
  "/v1/tasks/:id",
  "/v1/events",
  "/v1/health",
]);

const RESERVE = "/v1/reserve";
const REDRIVE = "/v1/tubes/:tube/redrive";
/** Names any tube. */
const ANY = "*";

export class Authentication {
  #authenticator: Authenticator | undefined;
  readonly #sessions = new Sessions();
  readonly #failures = new FailureLimit();
  readonly #waits = new StandingWaits();
  readonly #refusals = new SlowRefusals(() => performance.now());

  readonly #onWrong: () => void;
  readonly #namesOf: (socket: object) => readonly string[];

  /**
   * Without authentication, `tokens` is undefined. `onWrong` is called for each failed attempt;
   * `namesOf` returns the names in the client certificate of a socket.
   */
  constructor(
    tokens: readonly Token[] | undefined,
    onWrong: () => void,
    namesOf: (socket: object) => readonly string[],
  ) {
    this.#onWrong = onWrong;
    this.#namesOf = namesOf;
    this.configure(tokens);
  }

  /** Replaces the tokens. Sessions and waits of removed tokens end. */
  configure(tokens: readonly Token[] | undefined): void {
    this.#authenticator = tokens === undefined ? undefined : new Authenticator(tokens);
    this.#waits.look();
  }

  /**
   * Adds the check to all routes that are added later. Routes with the permission `open` need no
   * token.
   */
  addTo(api: Api, open?: Permission): void {
    api.addHook("onRequest", (request, reply, done) => {
      const authenticator = this.#authenticator;
      // Checked first: the getter of `routeOptions` builds a new object at each access.
      if (authenticator === undefined || isOpen(request.routeOptions.config.may, open)) done();
      else void this.#check(request, reply, authenticator).then(() => done(), done);
    });
    api.addHook("preHandler", (request, _reply, done) => {
      if (request.identity !== undefined) checkTubes(request, request.identity);
      done();
    });
    api.addHook("preClose", (done) => {
      this.#refusals.end();
      done();
    });
  }

  /** Resolves to the problem when it may be sent. */
  async #refusal(
    { ip }: FastifyRequest,
    { raw }: FastifyReply,
    code: ProblemCode,
    detail: string,
  ): Promise<Problem> {
    await this.#refusals.wait(ip ?? "", raw);
    return new Problem(code, detail);
  }

  async #check(request: FastifyRequest, reply: FastifyReply, authenticator: Authenticator): Promise<void> {
    const { may } = request.routeOptions.config;
    const identity = await this.#identify(request, reply, authenticator);
    if (identity === undefined) {
      reply.header("www-authenticate", challenge(request));
      throw await this.#refusal(
        request,
        reply,
        "unauthenticated",
        "Send a token: Authorization: Bearer rb1_…; create one with runnerbean token add.",
      );
    }
    request.identity = identity;
    const stands = (): boolean => this.#stands(request, identity);
    request.stands = stands;
    request.onRevoked = (end) => this.#waits.add({ stands, end });
    request.owner = identity.name;
    request.seesTexts = (identity.permissions & Bit.Bodies) !== 0;
    if (may !== undefined && may !== null) requirePermission(request, may);
  }

  #stands(request: FastifyRequest, identity: Identity): boolean {
    const { headers } = request;
    const authenticator = this.#authenticator;
    const nowMs = Date.now();
    if (authenticator === undefined) return true;
    const stillValid = (of: Identity): boolean => authenticator.stillValid(of, nowMs);
    const isProven =
      headers.authorization !== undefined || this.#namesOf(request.raw.socket).includes(identity.name);
    if (isProven) return stillValid(identity);
    return this.#sessions.find(headers.cookie, nowMs, stillValid) !== undefined;
  }

  async #identify(
    request: FastifyRequest,
    reply: FastifyReply,
    authenticator: Authenticator,
  ): Promise<Identity | undefined> {
    const { authorization, cookie } = request.headers;
    const nowMs = Date.now();
    if (authorization === undefined)
      return (
        this.#sessions.find(cookie, nowMs, (identity) => authenticator.stillValid(identity, nowMs)) ??
        authenticator.byCertificate(this.#namesOf(request.raw.socket), nowMs)
      );
    return await this.#prove(request, reply, byHeader(authorization, authenticator, nowMs));
  }

  /** Throws if the address has failed too often. */
  async #prove(
    request: FastifyRequest,
    reply: FastifyReply,
    proof: Identity | undefined | CostlyCheck<Identity>,
  ): Promise<Identity | undefined> {
    const identity = await this.#failures.attempt(request.ip ?? "", Date.now, proof);
    if (identity === "over")
      throw await this.#refusal(
        request,
        reply,
        "too-many-requests",
        "Too many wrong tokens came from this address; try again in a minute.",
      );
    if (identity === undefined) this.#onWrong();
    // A reload may have replaced the tokens during the password check.
    return identity !== undefined && this.#authenticator?.stillValid(identity, Date.now()) !== false
      ? identity
      : undefined;
  }

  readonly sessionRoutes: Routes = (api) => {
    const Login = Type.Object({ token: Type.String({ maxLength: 256 }) }, { additionalProperties: false });
    const open = { may: null, quiet: false } as const;
    const schema = { summary: "Starts a session: a cookie replaces the token", body: Login };
    const responses = answers({ 204: Type.Null() }, 401, 429);
    api.post(
      "/v1/session",
      { config: open, schema: { ...schema, response: responses } },
      async (request, reply) => {
        const authenticator = this.#authenticator;
        if (authenticator === undefined) return reply.code(204).send();
        const nowMs = Date.now();
        const { token } = request.body;
        const identity = await this.#prove(request, reply, authenticator.byToken(token, nowMs));
        if (identity === undefined)
          throw await this.#refusal(request, reply, "unauthenticated", "This token is unknown.");
        return reply
          .header("set-cookie", this.#sessions.begin(identity, nowMs, request.protocol === "https"))
          .code(204)
          .send();
      },
    );
    const who = {
      summary: "The client's name and permissions",
      response: answers({ 200: Type.Unknown() }, 401),
    };
    api.get("/v1/session", { config: open, schema: who }, async (request, reply) => {
      const authenticator = this.#authenticator;
      if (authenticator === undefined)
        return { name: null, roles: ["admin"], permissions: Object.keys(BITS), tubes: null };
      const identity = await this.#identify(request, reply, authenticator);
      if (identity === undefined)
        throw await this.#refusal(request, reply, "unauthenticated", "This request has no valid token.");
      const { name, roles, permissions, tubes } = identity;
      return { name, roles, permissions: permissionNames(permissions), tubes: tubes ?? null };
    });
    const leave = { summary: "Ends the session", response: answers({ 204: Type.Null() }) };
    api.delete("/v1/session", { config: open, schema: leave }, async (request, reply) =>
      reply.header("set-cookie", this.#sessions.end(request.headers.cookie)).code(204).send(),
    );
  };
}

const isOpen = (
  may: Permission | readonly Permission[] | null | undefined,
  open: Permission | undefined,
): boolean => may === null || (may !== undefined && may === open);

/** Tells whether the request's token has one of the permissions. */
const mayDo = ({ identity }: FastifyRequest, may: Permission | readonly Permission[]): boolean =>
  identity === undefined || [may].flat().some((each) => (identity.permissions & BITS[each]) !== 0);

/**
 * Throws if the request's token has none of the permissions. Without tokens, everything is
 * permitted.
 */
export function requirePermission(request: FastifyRequest, may: Permission | readonly Permission[]): void {
  if (mayDo(request, may)) return;
  const lacking = [may]
    .flat()
    .map((each) => `"${each}"`)
    .join(" or ");
  throw new Problem("forbidden", `"${request.identity?.name}" lacks the permission ${lacking}.`);
}

/** Throws if the request's token was revoked or expired during the request. */
export function requireStanding({ stands }: FastifyRequest): void {
  if (stands?.() === false)
    throw new Problem(
      "unauthenticated",
      "The token was removed or expired while the request waited: use another one.",
    );
}

function byHeader(
  authorization: string,
  authenticator: Authenticator,
  nowMs: number,
): Identity | undefined | CostlyCheck<Identity> {
  const [, scheme = "", value = ""] = /^(\w+) +(\S+)$/.exec(authorization) ?? [];
  if (/^bearer$/i.test(scheme)) return authenticator.byToken(value, nowMs);
  if (!/^basic$/i.test(scheme)) return undefined;
  const text = Buffer.from(value, "base64").toString("utf8");
  const colon = text.indexOf(":");
  return colon < 0 ? undefined : authenticator.byPassword(text.slice(0, colon), text.slice(colon + 1), nowMs);
}

/**
 * Offers Basic only to page loads: a browser would show its own password dialog for our scripts.
 */
function challenge({ headers }: FastifyRequest): string {
  const bearer = 'Bearer realm="runnerbean"';
  const isScript = headers["sec-fetch-mode"] !== undefined && headers["sec-fetch-mode"] !== "navigate";
  return isScript ? bearer : `${bearer}, Basic realm="runnerbean", charset="UTF-8"`;
}

/**
 * Throws unless the request touches only tubes that the token may access. A request without a known
 * tube is refused.
 */
export function checkTubes(request: FastifyRequest, identity: Identity): void {
  if (identity.tubes === undefined) return;
  const { own, others } = namedTubes(request);
  const named = [...own, ...others];
  const known = own.length > 0 || CHECKED_ELSEWHERE.has(request.routeOptions.url ?? "");
  const strange = named.find((tube) => !mayTouch(identity, tube));
  if (known && strange === undefined) return;
  const what = strange === undefined ? "anything outside them" : `the tube "${strange}"`;
  throw new Problem("forbidden", `"${identity.name}" is limited to some tubes, and may not access ${what}.`);
}

/** A glob such as `?` would match the name that means any tube. */
const mayTouch = (identity: Identity, tube: string): boolean =>
  tube === ANY ? identity.tubes?.includes(ANY) !== false : mayTouchTube(identity, tube);

/**
 * Returns the tubes that a request works on, and other tubes that it names. A job that is moved to
 * one of the others may come from any tube.
 */
function namedTubes({ params, query, body, routeOptions }: FastifyRequest): {
  own: string[];
  others: string[];
} {
  const { tube } = (params ?? {}) as { tube?: string };
  const { tube: asked } = (query ?? {}) as { tube?: string };
  const { tubes, to } = (isPlain(body) ? body : {}) as { tubes?: unknown; to?: unknown };
  const { url } = routeOptions;
  // Elsewhere the query proves nothing, because some routes ignore it.
  const named = tube === "-" ? asked : tube;
  // The same goes for the body: only a reserve works on the tubes that it lists.
  const reserved = url === RESERVE && Array.isArray(tubes) ? tubes.map(String) : [];
  return {
    own: [...(named === undefined ? [] : [named]), ...reserved],
    // A redrive goes to any tube.
    others: url === REDRIVE ? [ANY] : typeof to === "string" ? [to] : [],
  };
}

const isPlain = (body: unknown): boolean =>
  typeof body === "object" && body !== null && !Buffer.isBuffer(body) && !("pipe" in body);
