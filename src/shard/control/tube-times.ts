// Times of individual tubes for the HTTP thread: selects the tubes to measure, and reports the
// counts so far, some tubes in each turn.

import type { Answers, Questions } from "../../message/control.ts";
import type { ControlAnswerer, ControlShard, ControlWork } from "./control-work.ts";
import type { LatencyMeter } from "./latency-meter.ts";

/** Tubes in a part: 10 KiB with the longest names and the highest counts. */
const PART_TUBES = 20;

export class MeasureTubes implements ControlWork {
  #left: Answers["tube-times"];

  constructor({ engine }: ControlShard, meter: LatencyMeter, { tubes }: Questions["tube-times"]) {
    this.#left = meter.measure(tubes, (name) => engine.findTube(name));
  }

  step(answerer: ControlAnswerer): boolean {
    const part = this.#left.slice(0, PART_TUBES);
    this.#left = this.#left.slice(PART_TUBES);
    answerer.value(part, this.#left.length === 0);
    return this.#left.length === 0;
  }
}
