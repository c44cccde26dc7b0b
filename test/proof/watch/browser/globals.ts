// Globals of Node that the simulator uses, for a browser. Imported before everything else.

import { Buffer } from "buffer/";

/** What Node's Buffer does and the package's refuses: both work on any Uint8Array. */
const onAnyBytes = {
  latin1Slice(this: Uint8Array, start: number, end: number): string {
    let text = "";
    for (let at = start; at < end; at++) text += String.fromCharCode(this[at]!);
    return text;
  },
  copy(this: Uint8Array, target: Uint8Array, at: number, start: number, end: number): number {
    target.set(this.subarray(start, end), at);
    return end - start;
  },
};

const process = {
  env: { RUNNERBEAN_CHECKED: "1" },
  resourceUsage: (): unknown => ({}),
  hrtime: { bigint: () => BigInt(Math.round(performance.now() * 1e6)) },
};

Object.assign(Buffer.prototype, onAnyBytes);
Object.assign(globalThis, { Buffer, process });
