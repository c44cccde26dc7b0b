// Worker of the page: plays the simulator at the pace that the page asks for, and tells it what
// happens.

import { FAULTS, type Fault } from "../../simulation/faults.ts";
import { CONTROL_WORDS, ControlWord, type Order, type Told } from "./control.ts";
import type { ObservedServer } from "./observed-server.ts";
import { bugOf, OFFERED } from "./planted-list.ts";
import { watchRun } from "./watched-run.ts";

/** A picture at most so often while the run is fast, ms. */
const PICTURE_MS = 33;
/** Seeds that a search tries. */
const SEEDS_MAX = 300;

interface WorkerScope {
  postMessage(message: Told): void;
  onmessage: ((event: { readonly data: Order }) => void) | null;
}

const scope = globalThis as typeof globalThis & WorkerScope;

class Player {
  readonly #order: Order;
  readonly #words: Int32Array;
  readonly #faults: Map<number, Fault>;
  #observed: ObservedServer | undefined;
  #step = 0;
  #acts: string[] = [];
  #dueAtMs = performance.now();
  #shownAtMs = 0;

  constructor(order: Order) {
    this.#order = order;
    this.#words = new Int32Array(order.control, 0, CONTROL_WORDS);
    this.#faults = new Map(order.faults);
  }

  async play(): Promise<void> {
    const { seed, steps, bug } = this.#order;
    const result = await watchRun({
      ...{ seed, steps, planted: bugOf(bug)?.options },
      faultAt: (step) => this.#faultAt(step),
      onServer: (observed) => {
        this.#observed = observed;
      },
      onStep: (step) => {
        this.#step = step;
      },
      onAct: (what) => {
        this.#acts.push(what);
      },
      onThread: () => this.#pace(),
    });
    this.#show();
    scope.postMessage({ kind: "end", seed, result, isSearch: false });
  }

  async search(): Promise<void> {
    const { seed: first, steps, bug } = this.#order;
    for (let seed = first; seed < first + SEEDS_MAX; seed++) {
      scope.postMessage({ kind: "searching", seed });
      const result = await watchRun({ seed, steps, planted: bugOf(bug)?.options });
      if (result.found === undefined && seed < first + SEEDS_MAX - 1) continue;
      scope.postMessage({ kind: "end", seed, result, isSearch: true });
      return;
    }
  }

  #faultAt(step: number): Fault | undefined {
    const asked = Atomics.exchange(this.#words, ControlWord.Fault, 0);
    if (asked > 0) {
      const fault = FAULTS[asked - 1]!;
      this.#faults.set(step, fault);
      scope.postMessage({ kind: "fault", step, fault });
    }
    return this.#faults.get(step);
  }

  /** Waits until the next step of a thread is due. */
  #pace(): void {
    const words = this.#words;
    for (;;) {
      const changes = Atomics.load(words, ControlWord.Changes);
      const isAhead = this.#step < this.#order.paceFrom;
      const speed = isAhead ? 0 : Atomics.load(words, ControlWord.Speed);
      const nowMs = performance.now();
      if (Atomics.load(words, ControlWord.Runs) === 0) {
        if (Atomics.load(words, ControlWord.Single) > 0) {
          Atomics.sub(words, ControlWord.Single, 1);
          this.#show();
          return;
        }
        this.#show();
        Atomics.wait(words, ControlWord.Changes, changes);
        this.#dueAtMs = performance.now();
        continue;
      }
      if (nowMs - this.#shownAtMs >= PICTURE_MS) this.#show();
      if (speed === 0 || nowMs >= this.#dueAtMs) {
        // A run that was held up does not catch up.
        this.#dueAtMs = speed === 0 ? nowMs : Math.max(this.#dueAtMs, nowMs - PICTURE_MS) + 1000 / speed;
        return;
      }
      Atomics.wait(words, ControlWord.Changes, changes, this.#dueAtMs - nowMs);
    }
  }

  #show(): void {
    if (this.#observed === undefined) return;
    this.#shownAtMs = performance.now();
    scope.postMessage({
      kind: "picture",
      picture: this.#observed.picture(),
      step: this.#step,
      acts: this.#acts.splice(0),
    });
  }
}

scope.onmessage = ({ data }) => {
  const player = new Player(data);
  void (data.search ? player.search() : player.play());
};
scope.postMessage({ kind: "ready", bugs: OFFERED.map(({ name }) => name) });
