// One run of the simulator in its worker, and the words through which the page steers it.

import { CONTROL_WORDS, ControlWord, type Order, type Told } from "../control.ts";

export class Run {
  readonly order: Order;
  readonly #worker = new Worker("/worker.js", { type: "module" });
  readonly #words: Int32Array<SharedArrayBuffer>;

  constructor(order: Omit<Order, "control">, speed: number, onTold: (told: Told) => void) {
    const control = new SharedArrayBuffer(4 * CONTROL_WORDS);
    this.#words = new Int32Array(control);
    this.order = { ...order, control };
    Atomics.store(this.#words, ControlWord.Speed, speed);
    this.#worker.onmessage = ({ data }: MessageEvent<Told>) => {
      if (data.kind === "ready") this.#worker.postMessage(this.order);
      onTold(data);
    };
  }

  #set(word: number, value: number): void {
    Atomics.store(this.#words, word, value);
    Atomics.add(this.#words, ControlWord.Changes, 1);
    Atomics.notify(this.#words, ControlWord.Changes);
  }

  set runs(runs: boolean) {
    this.#set(ControlWord.Runs, runs ? 1 : 0);
  }

  set speed(perSecond: number) {
    this.#set(ControlWord.Speed, perSecond);
  }

  /** Takes one step of a thread. */
  single(): void {
    this.#set(ControlWord.Single, 1);
  }

  /** Has a fault take the place of the next step of the run. */
  strike(fault: number): void {
    this.#set(ControlWord.Fault, fault + 1);
  }

  end(): void {
    this.#worker.terminate();
  }
}
