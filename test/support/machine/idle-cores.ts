// How much of the cores' time nobody uses.

import { cpus } from "node:os";

export class IdleCores {
  #before = read();

  /** The idle share of all cores since the last call, from 0 to 1. */
  share(): number {
    const now = read();
    const all = now.all - this.#before.all;
    const share = all > 0 ? (now.idle - this.#before.idle) / all : 0;
    this.#before = now;
    return share;
  }
}

function read(): { readonly idle: number; readonly all: number } {
  const sums = { idle: 0, all: 0 };
  for (const { times } of cpus()) {
    sums.idle += times.idle;
    for (const ms of Object.values(times)) sums.all += ms;
  }
  return sums;
}
