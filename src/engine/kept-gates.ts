// Gates of tubes that are gone: an empty tube goes and comes back, and its bucket must not be full again for that.

import { TubeGate } from "./tube-gate.ts";

/** Gates looked at, with each one that comes, whether they may be forgotten. */
const LOOKS = 4;

export class KeptGates {
  /** The one that was looked at last stands last. */
  readonly #byName = new Map<string, TubeGate>();

  /** The gate of a tube that is there again, or a new one. */
  take(name: string): TubeGate {
    const gate = this.#byName.get(name);
    this.#byName.delete(name);
    return gate ?? new TubeGate();
  }

  keep(name: string, gate: TubeGate): void {
    if (gate.isFull) return;
    for (const [each, kept] of [...this.#byName.entries().take(LOOKS)]) {
      this.#byName.delete(each);
      if (!kept.isFullAt(gate.atMs)) this.#byName.set(each, kept);
    }
    this.#byName.set(name, gate);
  }

  get size(): number {
    return this.#byName.size;
  }
}
