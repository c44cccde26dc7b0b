// Wall clocks of servers that a test shifts while they run: libfaketime. The monotonic clock stays,
// and so do the clocks of log servers, which ask the kernel without the C library.

import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { GroupServer } from "../../support/server/server-group.ts";

const { FAKETIME_LIB = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1" } = process.env;

/** Why clocks can't be shifted here; undefined if they can. */
export function whyNoClocks(): string | undefined {
  if (existsSync(FAKETIME_LIB)) return undefined;
  return `${FAKETIME_LIB} is missing (apt-get install libfaketime, or name libfaketimeMT.so.1 in FAKETIME_LIB)`;
}

export class WallClocks {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Returns the words before a server's command that give it a clock of its own; it is right. */
  wrapper(host: string): string[] {
    this.#write(host, 0);
    return [
      "env",
      `LD_PRELOAD=${FAKETIME_LIB}`,
      `FAKETIME_TIMESTAMP_FILE=${this.#path(host)}`,
      "FAKETIME_CACHE_DURATION=1",
      "FAKETIME_DONT_FAKE_MONOTONIC=1",
      // A killed server would leave its shared memory behind.
      "FAKETIME_DISABLE_SHM=1",
    ];
  }

  shift({ place }: GroupServer, seconds: number): void {
    this.#write(place.host, seconds);
  }

  #write(host: string, seconds: number): void {
    writeFileSync(this.#path(host), `${seconds < 0 ? "" : "+"}${seconds}\n`);
  }

  #path(host: string): string {
    return join(this.#folder, `clock-${host}`);
  }
}
