// Admission control: decides which connections to accept, gives them their filters and closes idle
// ones.

import { Authenticator } from "../../access/authenticator.ts";
import { AddressList, type CostlyCheck, FailureLimit } from "../../access/client-address.ts";
import type { Identity } from "../../access/identity.ts";
import { Counter } from "../../message/topology.ts";
import type { CommandParser } from "../../protocol/command-parser.ts";
import type { ConnectionCounts } from "../../ring/connection-words.ts";
import type { Transport } from "../stream/transport.ts";
import { type Admission, AuthFilter, ObservedTransport, ReservedIds } from "./auth-filter.ts";
import { type ConnectionFilter, IdleFilter } from "./line-filter.ts";
import type { AccessRules, ConnectionLimits, ListenerPolicy } from "./listener-policy.ts";

/** Time in which a client has to authenticate, in ms. */
const AUTH_MS = 10_000;
/** Interval between checks for idle and expired connections, in ms. */
const SWEEP_MS = 1000;
/** Minimum interval between two log lines about the same kind of refusal, in ms. */
const WARN_EVERY_MS = 60_000;

/** The reason why a connection is refused. */
type Refusal = "full" | "address" | "auth" | "certificate" | "handshake" | "header";

const COUNTERS: Readonly<Record<Refusal, number>> = {
  full: Counter.RejectedFull,
  address: Counter.RejectedAddress,
  auth: Counter.RejectedAuth,
  certificate: Counter.RejectedAuth,
  handshake: Counter.RejectedHandshake,
  header: Counter.RejectedHeader,
};

interface AdmissionOptions {
  readonly rules: AccessRules;
  readonly counts: ConnectionCounts | undefined;
  readonly counters: Float64Array;
  /** A parser that accepts `auth` besides the server's commands. */
  readonly parser: CommandParser;
  readonly nowMs: () => number;
  readonly unixMs: () => number;
  readonly warn: (message: string) => void;
  /** Wakes the thread, because it has work to do. */
  readonly wake: () => void;
}

/** An accepted connection. */
export interface Entry {
  readonly filter: ConnectionFilter | undefined;
  wrap(transport: Transport): Transport;
  /**
   * Authenticates the client by the names in its certificate. Returns false if no token has such a
   * name.
   */
  identify(names: readonly string[]): boolean;
  /** Called when the connection is closed or could not be opened. */
  leave(): void;
}

/** An address as it appears in messages; "" for a unix socket. */
type PeerAddress = string;

export class AdmissionControl {
  readonly #options: AdmissionOptions;
  #limits: ConnectionLimits;
  #authenticator: Authenticator;
  #allowLists: readonly (AddressList | undefined)[] = [];
  #proxies: readonly (AddressList | undefined)[] = [];
  #policies: readonly (ListenerPolicy | undefined)[] = [];
  readonly #failures = new FailureLimit();
  /** Filters of connections that have not authenticated yet, with their deadlines. */
  readonly #unknown = new Map<AuthFilter, number>();
  /** Filters of authenticated connections, by identity. */
  readonly #known = new Map<Identity, Set<AuthFilter>>();
  readonly #idleFilters = new Set<IdleFilter>();
  /**
   * Filters that the last check found overdue, with the start of the time that they measure. If the
   * next check finds the same, their connections are closed.
   */
  #overdue = new Map<AuthFilter | IdleFilter, number>();
  /** The time of the last log line about each kind of refusal. */
  readonly #warnedAtMs = new Map<string, number>();
  #sweep: NodeJS.Timeout | undefined;

  constructor(options: AdmissionOptions) {
    this.#options = options;
    this.#limits = options.rules.limits;
    this.#authenticator = new Authenticator(options.rules.tokens);
    this.configure(options.rules);
  }

  /**
   * Replaces the rules for new connections. Authenticated clients stay connected unless their token
   * has changed.
   */
  configure({ tokens, limits, policies }: AccessRules): void {
    this.#limits = limits;
    this.#authenticator = new Authenticator(tokens);
    this.#policies = policies;
    this.#allowLists = policies.map((policy) =>
      policy?.allow === undefined ? undefined : new AddressList(policy.allow),
    );
    this.#proxies = policies.map((policy) =>
      policy?.proxyFrom === undefined ? undefined : new AddressList(policy.proxyFrom),
    );
    this.#revoke();
  }

  /** Ends all connections whose token is no longer valid. */
  #revoke(): void {
    const { unixMs, wake } = this.#options;
    for (const [identity, filters] of this.#known) {
      if (this.#authenticator.stillValid(identity, unixMs())) continue;
      for (const filter of filters) filter.revoke();
      wake();
    }
  }

  #onKnown(filter: AuthFilter, before: Identity | undefined): void {
    const { identity } = filter;
    this.#unknown.delete(filter);
    this.#forget(filter, before);
    if (identity === undefined) return;
    this.#known.getOrInsertComputed(identity, () => new Set()).add(filter);
    if (identity.expiresAtMs < Number.POSITIVE_INFINITY) this.#keepLooking();
  }

  #forget(filter: AuthFilter, identity: Identity | undefined): void {
    const filters = identity === undefined ? undefined : this.#known.get(identity);
    if (filters?.delete(filter) && filters.size === 0) this.#known.delete(identity!);
  }

  get keepAlive(): ConnectionLimits["keepAlive"] {
    return this.#limits.keepAlive;
  }

  /** Returns whether every client of this listener is accepted without checks. */
  isOpen(listener: number): boolean {
    const { connections, perAddress, idleMs } = this.#limits;
    const policy = this.#policies[listener];
    const isLimited = Math.min(connections, perAddress, idleMs) < Number.POSITIVE_INFINITY;
    return !isLimited && (policy === undefined || (policy.auth === "none" && policy.allow === undefined));
  }

  /** Returns whether a proxy has opened the connection, which then begins with a PROXY header. */
  isProxied(listener: number, address: PeerAddress): boolean {
    return this.#proxies[listener]?.includes(address) === true;
  }

  /** Counts a connection and accepts it, or refuses it. */
  admit(listener: number, address: PeerAddress): Entry | Refusal {
    const policy = this.#policies[listener];
    const allowed = this.#allowLists[listener];
    if (allowed !== undefined && address !== "" && !allowed.includes(address))
      return this.#refuse("address", `${address} is not in the allow-list of ${policy?.name}`);
    const leave = this.#count(address);
    return typeof leave === "string" ? leave : this.#enter(policy, address, leave);
  }

  #count(address: PeerAddress): (() => void) | Refusal {
    const { connections, perAddress } = this.#limits;
    const { counts } = this.#options;
    if (counts === undefined) return () => {};
    if (!counts.enter(connections))
      return this.#refuse("full", `there are ${connections} connections, as many as max-connections allows`);
    if (address === "") return () => counts.leave();
    if (!counts.enterFrom(address, perAddress)) {
      counts.leave();
      return this.#refuse(
        "full",
        `${address} has ${perAddress} connections, as many as max-connections-per-address allows`,
      );
    }
    return () => {
      counts.leave();
      counts.leaveFrom(address);
    };
  }

  #enter(policy: ListenerPolicy | undefined, address: PeerAddress, leave: () => void): Entry {
    const reserved = new ReservedIds();
    let hasLeft = false;
    const { idleMs } = this.#limits;
    const access =
      policy === undefined || policy.auth === "none"
        ? undefined
        : new AuthFilter(this.#admissionFor(policy, address), reserved);
    const idle =
      idleMs === Number.POSITIVE_INFINITY
        ? undefined
        : new IdleFilter(access, this.#options.nowMs, (filter) => this.#lookAt(filter));
    return {
      filter: idle ?? access,
      wrap: (transport) =>
        new ObservedTransport(transport, (bytes, length) => {
          if (access !== undefined) reserved.observe(bytes, length);
        }),
      identify: (names) => {
        const identity = this.#authenticator.byCertificate(names, this.#options.unixMs());
        if (identity !== undefined) access?.welcome(identity);
        else
          this.#refuse(
            "certificate",
            `no token matches a name in the certificate of ${address}: ${names.join(", ")}`,
          );
        return identity !== undefined;
      },
      leave: () => {
        if (hasLeft) return;
        hasLeft = true;
        if (access !== undefined) {
          this.#unknown.delete(access);
          this.#forget(access, access.identity);
        }
        if (idle !== undefined) this.#idleFilters.delete(idle);
        leave();
      },
    };
  }

  /** Returns whether clients of this listener authenticate by certificate. */
  identifies(listener: number): boolean {
    return this.#policies[listener]?.auth === "certificate";
  }

  noteTlsFailure(listener: string, why: string): void {
    this.#refuse("handshake", `its handshake on ${listener} failed: ${why}`);
  }

  noteHeaderFailure(listener: number, why: string): void {
    this.#refuse("header", `${why}, and proxy-from of ${this.#policies[listener]?.name} names its address`);
  }

  #admissionFor(policy: ListenerPolicy, address: PeerAddress): Admission {
    const { parser, unixMs, wake, nowMs } = this.#options;
    return {
      parser,
      wake,
      identify: (secret) => {
        if (policy.auth !== "token") return undefined;
        return this.#failures.attempt(address, nowMs, this.#proofOf(secret));
      },
      isWelcome: (identity) => this.#authenticator.stillValid(identity, unixMs()),
      onUnknown: (filter) => {
        this.#unknown.set(filter, nowMs() + AUTH_MS);
        this.#keepLooking();
      },
      onKnown: (filter, before) => this.#onKnown(filter, before),
      onFailure: (isCounted) => {
        if (!isCounted) this.#failures.note(address, nowMs());
        this.#refuse("auth", `${address || "a client"} did not authenticate on ${policy.name}`);
      },
    };
  }

  #proofOf(secret: string): Identity | undefined | CostlyCheck<Identity> {
    const { unixMs } = this.#options;
    const colon = secret.indexOf(":");
    if (colon < 0) return this.#authenticator.byToken(secret, unixMs());
    return this.#authenticator.byPassword(secret.slice(0, colon), secret.slice(colon + 1), unixMs());
  }

  #refuse(refusal: Refusal, message: string): Refusal {
    const { counters, warn, nowMs } = this.#options;
    counters[COUNTERS[refusal]] = counters[COUNTERS[refusal]]! + 1;
    const warnedAtMs = this.#warnedAtMs.get(refusal);
    if (warnedAtMs === undefined || nowMs() >= warnedAtMs + WARN_EVERY_MS) {
      this.#warnedAtMs.set(refusal, nowMs());
      warn(`a connection was closed: ${message} (reported once a minute at most)`);
    }
    return refusal;
  }

  // --- idle clients ------------------------------------------------------------------------------

  #lookAt(filter: IdleFilter): void {
    this.#idleFilters.add(filter);
    this.#keepLooking();
  }

  /**
   * Starts the regular check for idle clients and expiring tokens. It runs as long as there is
   * something to check, and it does not keep the process alive.
   */
  #keepLooking(): void {
    this.#sweep ??= setInterval(() => this.#look(), SWEEP_MS).unref();
  }

  #look(): void {
    this.#revoke();
    this.#lookForSilent();
    const endsByItself = ({ expiresAtMs }: Identity): boolean => expiresAtMs < Number.POSITIVE_INFINITY;
    if (this.#unknown.size + this.#idleFilters.size > 0 || this.#known.keys().some(endsByItself)) return;
    clearInterval(this.#sweep);
    this.#sweep = undefined;
  }

  #lookForSilent(): void {
    const { nowMs, wake } = this.#options;
    const now = nowMs();
    const overdue = this.#overdue;
    this.#overdue = new Map();
    // If this thread was held up, it has not yet read what the client sent in the meantime.
    const isOverdueAgain = (filter: AuthFilter | IdleFilter, sinceMs: number): boolean => {
      if (overdue.get(filter) === sinceMs) return true;
      this.#overdue.set(filter, sinceMs);
      return false;
    };
    for (const [filter, untilMs] of this.#unknown) {
      // The client's password may be queued behind many others.
      if (now < untilMs || filter.isBeingChecked || !isOverdueAgain(filter, untilMs)) continue;
      this.#unknown.delete(filter);
      filter.endUnlessKnown();
    }
    for (const filter of this.#idleFilters) {
      const sinceMs = filter.idleSinceMs();
      if (now >= sinceMs + this.#limits.idleMs && isOverdueAgain(filter, sinceMs)) this.#close(filter);
    }
    wake();
  }

  #close(filter: IdleFilter): void {
    this.#idleFilters.delete(filter);
    filter.end();
  }
}
