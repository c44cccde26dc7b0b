// Interface of a soak client to the load that it is part of.

import type { Counters } from "./counters.ts";
import type { JobLedger } from "./job-ledger.ts";

export interface ClientHost {
  readonly ledger: JobLedger;
  readonly counters: Counters;
  /** Answers that are right only during some events. */
  readonly allowed: { diskFull: boolean; draining: boolean };
  /** Whether clients may go on. */
  readonly isOpen: boolean;
  /** Sleeps for so many ms, or until the load is closed. */
  rest(ms: number): Promise<void>;
  /** Call the result when the reply is there: it counts, unless an event came between. */
  startTimer(): (kind: string) => void;
}
