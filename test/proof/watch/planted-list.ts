// Planted bugs that the page offers, with the words that a stranger needs. Each is one that
// `npm test` plants and must find; the search begins at seed 1, as there.

import type { PlantedBug } from "../../simulation/planted/planted-bug.ts";
import { PLANTED_BUGS } from "../../simulation/planted/planted-bugs.ts";
import { PLANTED_LOG_BUGS } from "../../simulation/planted/planted-log-bugs.ts";
import { PLANTED_LOOP_BUGS } from "../../simulation/planted/planted-loop-bugs.ts";
import { PLANTED_RESTART_BUGS } from "../../simulation/planted/planted-restart-bugs.ts";

/** As the canary of test/simulation plays them. */
const CANARY = { extensions: false, policies: false } as const;

export const OFFERED: readonly PlantedBug[] = [
  ...PLANTED_BUGS,
  ...PLANTED_LOG_BUGS,
  ...PLANTED_LOOP_BUGS,
  ...PLANTED_RESTART_BUGS,
].map(({ name, options }) => ({ name, options: { ...CANARY, ...options } }));

export function bugOf(name: string): PlantedBug | undefined {
  return OFFERED.find((bug) => bug.name === name);
}
