// Gates of tubes that are gone: an empty tube goes and comes back, and its bucket must not be full again for that.

import type { TubeGate } from "./tube-gate.ts";
import type { TubePolicy } from "./tube-settings.ts";

/** Gates looked at, with each one that comes, whether they may be forgotten. */
const LOOKS = 4;

export class KeptGates {
  /** The one that was looked at last stands last. */
  readonly #byName = new Map<string, TubeGate>();

  /**
   * The gate of a tube that is there again; undefined if none was kept, or the tube is to give so many in another time now: from when
   * on, nobody has noted.
   */
  take(name: string, policy: TubePolicy | undefined): TubeGate | undefined {
    const gate = this.#byName.get(name);
    if (gate === undefined) return undefined;
    this.#byName.delete(name);
    return policy !== undefined && gate.isSetTo(policy) ? gate : undefined;
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
