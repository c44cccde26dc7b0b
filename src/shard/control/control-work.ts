// A question of the http thread that is being answered, in slices: a shard serves one slice a turn, beside commands.

import type { Engine } from "../../engine/engine.ts";
import type { RecordLog } from "../records/record-log.ts";

/** What the work of a question may use of its shard. */
export interface ControlShard {
  readonly engine: Engine;
  /** Undefined without a log. */
  readonly records: RecordLog | undefined;
  /** Time of the present turn, monotonic ms. */
  readonly nowMs: number;
  readonly clock: () => number;
  /** Ways into the shard: a session's index is its slot times this, and its port. */
  readonly portCount: number;
  /** Index of the session that holds leased jobs. */
  readonly leaseSession: number;
  /** Whether a tube lives on this shard. */
  ownsTube(name: string): boolean;
}

/** Takes parts of an answer. */
export interface ControlAnswerer {
  /** Largest part, in bytes. */
  readonly partBytesMax: number;
  /** Sends a part that is msgpack's. */
  value(value: unknown, isLast: boolean): void;
  bytes(bytes: Uint8Array, length: number, isLast: boolean): void;
}

export interface ControlWork {
  /** Does a slice and sends at most one part; true when it has sent the last. */
  step(answerer: ControlAnswerer): boolean;
  /** Whether it can't go on before something comes from elsewhere; false if it is left out. */
  readonly isWaiting?: boolean;
  /** Nobody wants the rest: it ends with what it has begun. */
  cancel?(): void;
}
