// End time of each ringer's last ring, so that a sleeper can tell whether it was forgotten.

import { monotonicMs } from "../../src/ring/monotonic-clock.ts";
import { plain } from "./pauses.ts";

/** int32 words between two ringers: [publications begun, rings over], and a float64 beside them. */
const STEP_BYTES = 64;

/** Publications of several ringers, each noted before it begins and when its ring is over. */
export class RungAt {
  readonly #words: Int32Array;
  readonly #times: Float64Array;

  static bytes(ringers: number): number {
    return ringers * STEP_BYTES;
  }

  constructor(buffer: SharedArrayBuffer) {
    this.#words = new Int32Array(buffer);
    this.#times = new Float64Array(buffer);
  }

  begin(ringer: number): void {
    plain.add(this.#words, (ringer * STEP_BYTES) / 4, 1);
  }

  over(ringer: number): void {
    this.#times[(ringer * STEP_BYTES) / 8 + 1] = monotonicMs();
    plain.add(this.#words, (ringer * STEP_BYTES) / 4 + 1, 1);
  }

  /**
   * When the ringer's last ring was over (monotonic ms), or Infinity while a publication is under
   * way.
   */
  at(ringer: number): number {
    const over = plain.load(this.#words, (ringer * STEP_BYTES) / 4 + 1);
    const atMs = this.#times[(ringer * STEP_BYTES) / 8 + 1]!;
    return plain.load(this.#words, (ringer * STEP_BYTES) / 4) === over ? atMs : Number.POSITIVE_INFINITY;
  }
}
