// Interface of an event to its soak.

import type { SeededRandom } from "../support/seeded-random.ts";
import type { JobLedger } from "./job-ledger.ts";
import type { Load } from "./load.ts";
import type { ServerHost } from "./server-host.ts";
import type { SmallDisk } from "./small-disk.ts";
import type { WallClock } from "./wall-clock.ts";

export interface EventHost {
  readonly random: SeededRandom;
  readonly ledger: JobLedger;
  readonly load: Load;
  readonly host: ServerHost;
  readonly disk: SmallDisk;
  readonly clock: WallClock;
  /** Connections break from now on, and all jobs may come back. */
  serverGoes(): void;
  /** A server with other threads over the same log. */
  start(): Promise<void>;
  /** Everything is compared before the first client of a new server comes. */
  resume(): Promise<string>;
  restart(): Promise<string>;
  /** All clients go, everything is compared, clients come again. */
  pause(): Promise<string>;
  /** Small or large, forward or back. */
  newClockOffset(maxMs: number): number;
}
