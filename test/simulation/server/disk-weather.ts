// Faults of a disk during the life of one process: it is slow, it fails for good, or the power
// fails in the middle of a call.

import type { VirtualDisk } from "../../binlog/virtual-disk.ts";
import type { SeededRandom } from "../../support/seeded-random.ts";

type DiskCall = "write" | "sync" | "open" | "truncate" | "unlink" | "syncFolder";
const CALLS: readonly [DiskCall, ...DiskCall[]] = [
  "write",
  "sync",
  "open",
  "truncate",
  "unlink",
  "syncFolder",
];

interface WeatherHost {
  /** Lets time pass during a call. */
  takeTime(ms: number): void;
  /** The power goes. */
  halt(): void;
  /** Whether the server can't be interrupted now. */
  readonly sheltered: boolean;
}

export class DiskWeather {
  /** A call has failed, and every one of its kind does from now on; or the power is gone. */
  struck = false;
  /** A write has found no room. */
  wasShort = false;
  readonly #disk: VirtualDisk;
  readonly #random: SeededRandom;
  #syncMs: number;
  readonly #failingCall: DiskCall | undefined;
  readonly #failsAt: number;
  readonly #cutAt: number;
  #isCutAtSync = false;
  /**
   * Calls from and until which nothing finds room that is written, be it over zeros; then it
   * passes.
   */
  readonly #shortAt: number;
  readonly #shortUntil: number;

  constructor(disk: VirtualDisk, random: SeededRandom) {
    this.#disk = disk;
    this.#random = random;
    this.#syncMs = random.pick([0, 0, 0.2, 5, 300]);
    this.#failingCall = random.chance(0.15) ? random.pick(CALLS) : undefined;
    this.#failsAt = disk.calls + random.between(0, 150);
    this.#cutAt = random.chance(0.3) ? disk.calls + random.between(0, 250) : Number.POSITIVE_INFINITY;
    this.#shortAt = random.chance(0.2) ? disk.calls + random.between(0, 150) : Number.POSITIVE_INFINITY;
    this.#shortUntil = this.#shortAt + random.between(1, 8);
  }

  /** From here on, each sync takes up to `ms`. */
  slowDown(ms: number): void {
    this.#syncMs = ms;
  }

  /** The power goes as soon as written bytes are about to be synced. */
  cutAtNextSync(): void {
    this.#isCutAtSync = true;
  }

  /** Begins with the server's first call. */
  begin(host: WeatherHost): void {
    this.#disk.fault = (call) => {
      if (call === "sync" && this.#syncMs > 0) host.takeTime(this.#random.next() * this.#syncMs);
      if (host.sheltered) return;
      if (this.#disk.calls >= this.#cutAt || (this.#isCutAtSync && call === "sync")) {
        this.struck = true;
        host.halt();
        throw Object.assign(new Error("the power is gone"), { code: "EIO" });
      }
      if (call === "write" && this.#disk.calls >= this.#shortAt && this.#disk.calls < this.#shortUntil) {
        this.wasShort = true;
        throw Object.assign(new Error("ENOSPC: injected in write"), { code: "ENOSPC" });
      }
      if (call !== this.#failingCall || this.#disk.calls < this.#failsAt) return;
      this.struck = true;
      throw Object.assign(new Error(`EIO: injected in ${call}`), { code: "EIO" });
    };
  }

  /** Nothing happens any more. */
  end(): void {
    this.#disk.fault = () => {};
  }
}
