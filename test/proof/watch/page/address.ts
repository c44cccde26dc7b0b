// A run as the page's address tells it, so that a link shows the same run.

import { FAULTS, type Fault } from "../../../simulation/faults.ts";
import type { FaultAt } from "../control.ts";

interface Address {
  readonly seed: number;
  readonly steps: number;
  readonly bug: string;
  readonly faults: readonly FaultAt[];
}

const SEED_MAX = 9_999_999_999;
const STEPS_MAX = 5000;
/** A seed whose run has several shards, a log and a few restarts. */
const FIRST: Address = { seed: 57, steps: 300, bug: "", faults: [] };

const isFault = (text: string): text is Fault => (FAULTS as readonly string[]).includes(text);

function whole(text: string | null, most: number, otherwise: number): number {
  const value = Number(text);
  return text !== null && /^\d+$/.test(text) && value >= 1 && value <= most ? value : otherwise;
}

export const seedOf = (text: string, otherwise: number): number => whole(text, SEED_MAX, otherwise);
export const stepsOf = (text: string, otherwise: number): number => whole(text, STEPS_MAX, otherwise);

export function readAddress(hash: string): Address {
  const words = new URLSearchParams(hash.replace(/^#/, ""));
  const faults = (words.get("faults") ?? "").split(",").flatMap((part): FaultAt[] => {
    const [fault = "", step = ""] = part.split("@");
    return isFault(fault) && /^\d+$/.test(step) ? [[Number(step), fault]] : [];
  });
  return {
    seed: whole(words.get("seed"), SEED_MAX, FIRST.seed),
    steps: whole(words.get("steps"), STEPS_MAX, FIRST.steps),
    bug: words.get("bug") ?? "",
    faults,
  };
}

export function writeAddress({ seed, steps, bug, faults }: Address): string {
  const words = new URLSearchParams({ seed: `${seed}`, steps: `${steps}` });
  if (bug !== "") words.set("bug", bug);
  if (faults.length > 0) words.set("faults", faults.map(([step, fault]) => `${fault}@${step}`).join(","));
  return `#${words}`;
}
