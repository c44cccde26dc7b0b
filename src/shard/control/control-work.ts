// Work on a question from the HTTP thread, in slices: a shard runs one slice per turn, besides
// commands.

import type { Engine } from "../../engine/engine.ts";
import type { RecordLog } from "../records/record-log.ts";

/** The parts of the shard that a question may use. */
export interface ControlShard {
  readonly engine: Engine;
  /** Undefined without a log. */
  readonly records: RecordLog | undefined;
  /** The time of the current turn, in monotonic ms. */
  readonly nowMs: number;
  readonly clock: () => number;
  /**
   * The number of ports into the shard. A session's index is its slot times this number, plus its
   * port.
   */
  readonly portCount: number;
  /** Index of the session that holds leased jobs. */
  readonly leaseSession: number;
  /** Returns whether a tube lives on this shard. */
  ownsTube(name: string): boolean;
}

/** Takes the parts of an answer. */
export interface ControlAnswerer {
  /** The largest part, in bytes. */
  readonly partBytesMax: number;
  /** Sends a part, encoded as MessagePack. */
  value(value: unknown, isLast: boolean): void;
  bytes(bytes: Uint8Array, length: number, isLast: boolean): void;
}

export interface ControlWork {
  /** Runs a slice and sends at most one part. Returns true after the last one. */
  step(answerer: ControlAnswerer): boolean;
  /** Whether it has to wait for another part of the server; undefined means false. */
  readonly isWaiting?: boolean;
  /** Ends the work after the jobs that it has begun, because the rest is no longer wanted. */
  cancel?(): void;
}
