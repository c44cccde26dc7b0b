// Lists of addresses and networks, such as "10.0.0.0/8", "fd00::/8" and "192.0.2.7".

import ipaddr from "ipaddr.js";
import { RecentMap } from "../base/recent-map.ts";

type Address = ReturnType<typeof ipaddr.process>;

export class AddressList {
  readonly #networks: readonly [Address, number][];

  /** Throws a TypeError that names the first text that is not an address or a network. */
  constructor(texts: readonly string[]) {
    this.#networks = texts.map(parseNetwork);
  }

  /** Returns whether the list contains the address. An IPv4-mapped IPv6 address counts as IPv4. */
  includes(text: string): boolean {
    if (!ipaddr.isValid(text)) return false;
    const address = ipaddr.process(text);
    return this.#networks.some(
      ([network, bits]) => network.kind() === address.kind() && address.match(network, bits),
    );
  }
}

function parseNetwork(text: string): [Address, number] {
  try {
    if (text.includes("/")) {
      const [address, bits] = ipaddr.parseCIDR(text);
      return [address, bits];
    }
    // Rejects "10.1" and plain numbers, which only C's address parsers accept.
    if (!ipaddr.IPv4.isValidFourPartDecimal(text) && !ipaddr.IPv6.isValid(text)) throw new Error();
    const address = ipaddr.process(text);
    return [address, address.kind() === "ipv4" ? 32 : 128];
  } catch {
    throw new TypeError(`${text} is not an address or network, such as 192.0.2.7 or 10.0.0.0/8`);
  }
}

// Limits guesses of secrets per address: ten failures a minute, and never more concurrent checks
// than failures left. Valid tokens pass whatever else came from their address.

const FAILURES_MAX = 10;
const WINDOW_MS = 60_000;
/** Maximum number of remembered addresses; the map forgets the oldest failures first. */
const ADDRESSES_MAX = 10_000;
/** Maximum number of guesses, over all addresses, that wait for earlier checks. */
const WAITING_MAX = 1000;
/**
 * Number of 16-bit groups that form the network part of an IPv6 address. A client can usually
 * choose the rest freely.
 */
const NETWORK_GROUPS = 4;

/** Number of checks in progress for a network, and the guesses that wait for them. */
interface UnderWay {
  count: number;
  readonly waiting: (() => void)[];
}

type Found<T> = T | undefined;

/** A check that costs so much that the limit comes first: of a password. */
export interface CostlyCheck<T> {
  /** Stands for the secret and for what it is compared with. */
  readonly guess: string;
  check(): Promise<Found<T>>;
}

interface Failures {
  readonly sinceMs: number;
  /** Of secrets that are long enough to be looked up at once. */
  tokens: number;
  /** Wrong passwords: the same one again is no further guess. */
  readonly guesses: Set<string>;
}

export class FailureLimit {
  readonly #failures = new RecentMap<string, Failures>(ADDRESSES_MAX);
  readonly #underWay = new Map<string, UnderWay>();
  #waiting = 0;

  /**
   * Counts a failure of a client that gave no password. Returns whether the limit was reached
   * before.
   */
  note(address: string, nowMs: number): boolean {
    if (address === "") return false;
    const failures = this.#failuresOf(networkOf(address), nowMs);
    return failures.tokens++ >= FAILURES_MAX;
  }

  /**
   * Returns what a client has proved, or "over" if its address has failed too often. What is known
   * at once is never refused: others at the same address may have failed. For a costly check, the
   * limit comes first. A check in progress counts as a failure, so concurrent guesses get no more
   * tries than sequential ones; guesses beyond that wait. Clients of a unix socket have no address
   * to tell them apart, so "" has no limit.
   */
  attempt<T extends object>(
    address: string,
    nowMs: () => number,
    proof: Found<T> | CostlyCheck<T>,
  ): Found<T> | "over" | Promise<Found<T> | "over"> {
    if (proof === undefined) return this.note(address, nowMs()) ? "over" : undefined;
    if (!isCostly(proof)) return proof;
    if (address === "") return proof.check();
    const network = networkOf(address);
    const { guesses } = this.#failuresOf(network, nowMs());
    if (guesses.has(proof.guess)) return undefined;
    const left = FAILURES_MAX - guesses.size;
    if (left <= 0) return "over";
    if (left <= (this.#underWay.get(network)?.count ?? 0)) return this.#attemptLater(network, nowMs, proof);
    return this.#finish(network, nowMs, proof);
  }

  async #attemptLater<T extends object>(
    network: string,
    nowMs: () => number,
    proof: CostlyCheck<T>,
  ): Promise<Found<T> | "over"> {
    if (this.#waiting >= WAITING_MAX) return "over";
    this.#waiting++;
    await new Promise<void>((resolve) => this.#underWay.get(network)!.waiting.push(resolve));
    this.#waiting--;
    const found = this.attempt(network, nowMs, proof);
    // A check releases the next waiter itself when it ends.
    if (!(found instanceof Promise)) this.#goOn(network);
    return await found;
  }

  async #finish<T>(
    network: string,
    nowMs: () => number,
    { guess, check }: CostlyCheck<T>,
  ): Promise<Found<T>> {
    const underWay = this.#underWay.get(network) ?? { count: 0, waiting: [] };
    this.#underWay.set(network, underWay);
    underWay.count++;
    try {
      const found = await check();
      if (found === undefined) this.#failuresOf(network, nowMs()).guesses.add(guess);
      return found;
    } finally {
      underWay.count--;
      this.#goOn(network);
    }
  }

  /** Lets the next waiter continue. */
  #goOn(network: string): void {
    const underWay = this.#underWay.get(network);
    if (underWay === undefined) return;
    const next = underWay.waiting.shift();
    if (next !== undefined) next();
    else if (underWay.count === 0) this.#underWay.delete(network);
  }

  #failuresOf(network: string, nowMs: number): Failures {
    const before = this.#failures.get(network);
    if (before !== undefined && nowMs < before.sinceMs + WINDOW_MS) return before;
    const failures = { sinceMs: nowMs, tokens: 0, guesses: new Set<string>() };
    this.#failures.set(network, failures);
    return failures;
  }
}

const isCostly = <T extends object>(proof: T | CostlyCheck<T>): proof is CostlyCheck<T> => "guess" in proof;

/** Returns the network of an IPv6 address, and any other address as it is. Idempotent. */
function networkOf(address: string): string {
  if (!address.includes(":") || !ipaddr.IPv6.isValid(address)) return address;
  const parsed = ipaddr.IPv6.parse(address);
  if (parsed.isIPv4MappedAddress()) return parsed.toIPv4Address().toString();
  const groups = parsed.parts.slice(0, NETWORK_GROUPS).map((group) => group.toString(16));
  return `${groups.join(":")}::`;
}
