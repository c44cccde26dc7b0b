// Unique keys of the model.

import type { KeptKey } from "./kept-policy.ts";
import type { ModelKey } from "./model-policies.ts";
import type { ModelState } from "./model-state.ts";
import type { ModelJob } from "./model-types.ts";

type Model = ModelState;

export class ModelKeys {
  readonly #model: Model;

  constructor(model: Model) {
    this.#model = model;
  }

  /** Returns the entry of the key that a job was put with. */
  keyOf({ id, tube }: ModelJob): ModelKey | undefined {
    return this.#model.keys.find((key) => key.id === id && key.tube === tube.name);
  }

  keptKey({ id, tube, key, untilMs }: ModelKey): KeptKey {
    return { id, tube, state: "remembered", key, untilMs: untilMs + this.#model.wallOffsetMs };
  }

  dropKey({ id, tube }: ModelJob): void {
    this.#model.keys = this.#model.keys.filter((key) => key.id !== id || key.tube !== tube.name);
  }

  /** Ends the job of a key: the key is remembered until its time is over. */
  endKey({ id, tube }: ModelJob, nowMs: number): void {
    const isMeant = (key: ModelKey): boolean => key.id === id && key.tube === tube.name;
    for (const key of this.#model.keys) if (isMeant(key)) key.isHeld = false;
    this.#model.keys = this.#model.keys.filter((key) => !isMeant(key) || key.untilMs > nowMs);
  }

  /** Gives a job the key that it was put with, if no other job has it. */
  takeKey({ id, tube, policy, reserves }: ModelJob): void {
    const { key, untilReserve } = policy;
    const isTaken = this.#model.keys.some((each) => each.tube === tube.name && each.key === key);
    if (key === "" || isTaken || (untilReserve && reserves > 0)) return;
    this.#model.keys.push({ tube: tube.name, key, id, isHeld: true, untilMs: 0 });
  }
}
