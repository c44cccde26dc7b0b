// What the page shows of a simulated server at one moment. Plain data: it crosses from the worker
// to the page.

/** Positions of a ring: bytes published and released since the start of the process. */
export interface RingPicture {
  readonly tail: number;
  readonly head: number;
}

export interface ClientPicture {
  readonly name: number;
  readonly acceptor: number;
  /** Its connection has ended, seen from the server. */
  readonly isClosed: boolean;
  readonly lastCommand: string;
  readonly lastReply: string;
  /** Commands and replies so far: a larger number than in the last picture is a message. */
  readonly commands: number;
  readonly replies: number;
}

export interface ShardPicture {
  readonly ready: number;
  readonly reserved: number;
  readonly delayed: number;
  readonly buried: number;
  readonly moving: number;
}

export interface LogPicture {
  /** Records made, written and synced, over all shards. */
  readonly made: number;
  readonly written: number;
  readonly synced: number;
  readonly state: "serves" | "waits for room" | "is full" | "failed" | "closed";
  readonly files: readonly {
    readonly name: string;
    readonly bytes: number;
    readonly pendingBytes: number;
  }[];
}

export interface Snapshot {
  /** Threads' steps over all processes so far. */
  readonly schedulerSteps: number;
  /** Virtual time since the process began. */
  readonly nowMs: number;
  /** 1 for the first process of the run. */
  readonly process: number;
  /** Name of the thread that has just gone on. */
  readonly running: string;
  readonly clients: readonly ClientPicture[];
  readonly acceptors: number;
  readonly shards: readonly ShardPicture[];
  /** `[acceptor][shard]`. */
  readonly requests: readonly (readonly RingPicture[])[];
  readonly responses: readonly (readonly RingPicture[])[];
  /** By shard; empty without a log. */
  readonly records: readonly RingPicture[];
  readonly ringBytes: number;
  readonly log: LogPicture | undefined;
  /** The power is gone: no thread goes on until the next process starts. */
  readonly isHalted: boolean;
}
