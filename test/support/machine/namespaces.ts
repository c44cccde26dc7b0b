// Machines of a test: network namespaces on one bridge, each with an address, which can be cut off
// from each other. Needs root.

import { spawnSync } from "node:child_process";
import { missing, NEEDS } from "./need.ts";

/** Limit of concurrent groups of machines: their addresses differ. */
const NETWORKS = 200;

function ip(...args: string[]): void {
  const { status, stderr } = spawnSync("ip", args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`ip ${args.join(" ")}: ${stderr}`);
}

/** Why there are none here, or undefined. */
export function noNamespaces(): string | undefined {
  if (process.getuid?.() !== 0) return "network namespaces need root";
  const reason = missing(NEEDS.ip);
  if (reason !== undefined) return reason;
  return spawnSync("ip", ["netns", "list"]).status === 0 ? undefined : "ip netns does not work here";
}

export class Namespaces {
  readonly #name: string;
  readonly #network: string;
  readonly count: number;

  /** Machines 1 to `count`; this process reaches all of them. Removed with the test. */
  constructor(t: { after(done: () => void): unknown }, count: number) {
    this.#name = `rb${process.pid % 100_000}`;
    this.#network = `10.77.${process.pid % NETWORKS}`;
    this.count = count;
    const remove = (): void => this.#remove();
    // Also where a signal ends this process.
    process.once("exit", remove);
    t.after(() => {
      process.off("exit", remove);
      remove();
    });
    ip("link", "add", this.#bridge, "type", "bridge");
    ip("addr", "add", `${this.#network}.254/24`, "dev", this.#bridge);
    ip("link", "set", this.#bridge, "up");
    for (let machine = 1; machine <= count; machine++) {
      const namespace = this.name(machine);
      ip("netns", "add", namespace);
      ip("link", "add", this.#link(machine), "type", "veth", "peer", "name", "eth0", "netns", namespace);
      ip("link", "set", this.#link(machine), "master", this.#bridge, "up");
      ip("-n", namespace, "addr", "add", `${this.address(machine)}/24`, "dev", "eth0");
      ip("-n", namespace, "link", "set", "eth0", "up");
      ip("-n", namespace, "link", "set", "lo", "up");
    }
  }

  get #bridge(): string {
    return `${this.#name}b`;
  }

  #link(machine: number): string {
    return `${this.#name}v${machine}`;
  }

  name(machine: number): string {
    return `${this.#name}n${machine}`;
  }

  address(machine: number): string {
    return `${this.#network}.${machine}`;
  }

  /** Returns the command that runs a program on a machine. */
  wrapper(machine: number): string[] {
    return ["ip", "netns", "exec", this.name(machine)];
  }

  /** It is cut off from all others. */
  cut(machine: number): void {
    ip("link", "set", this.#link(machine), "down");
  }

  /** It reaches no other machine, but its clients reach it. */
  isolate(machine: number): void {
    for (let other = 1; other <= this.count; other++) if (other !== machine) this.separate(machine, other);
  }

  /** The first sends nothing to the second, so no connection between them works. */
  separate(machine: number, other: number): void {
    ip("-n", this.name(machine), "route", "replace", "blackhole", `${this.address(other)}/32`);
  }

  heal(machine: number): void {
    ip("link", "set", this.#link(machine), "up");
    for (let other = 1; other <= this.count; other++)
      if (other !== machine)
        spawnSync("ip", ["-n", this.name(machine), "route", "del", "blackhole", `${this.address(other)}/32`]);
  }

  #remove(): void {
    for (let machine = 1; machine <= this.count; machine++)
      spawnSync("ip", ["netns", "del", this.name(machine)]);
    spawnSync("ip", ["link", "del", this.#bridge]);
  }
}
