// List of all stress cases, in the order of play.

import type { StressCase } from "./case.ts";
import { acceptorSleepCase } from "./cases/acceptor-sleep.ts";
import { bellTakenCase } from "./cases/bell-taken.ts";
import { claimCase, claimLateCase } from "./cases/claim.ts";
import { jobIdsCase } from "./cases/counting.ts";
import { doorbellCase } from "./cases/doorbell.ts";
import { flagsCase } from "./cases/flags.ts";
import { ringLapsCase } from "./cases/ring-laps.ts";
import { ringSleepCase } from "./cases/ring-sleep.ts";
import { manyOwnersCase, manyRingersCase } from "./cases/storm.ts";
import { syncedCase } from "./cases/synced.ts";
import { fileTableCase, jobDirectoryCase } from "./cases/tables.ts";

export const CASES: readonly StressCase[] = [
  ringLapsCase,
  ringSleepCase,
  flagsCase,
  doorbellCase,
  bellTakenCase,
  manyRingersCase,
  manyOwnersCase,
  acceptorSleepCase,
  claimCase,
  claimLateCase,
  jobIdsCase,
  jobDirectoryCase,
  fileTableCase,
  syncedCase,
];

/** Throws for a name that no case has. */
export function caseNamed(name: string): StressCase {
  const found = CASES.find((each) => each.name === name);
  if (found === undefined) throw new Error(`No stress case is called ${name}`);
  return found;
}
