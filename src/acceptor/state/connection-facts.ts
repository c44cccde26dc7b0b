// What can be told of a connection to whoever watches the server.

/** Tubes that are named of one connection. */
export const NAMED_TUBES_MAX = 20;

export interface ConnectionFacts {
  readonly slot: number;
  /** Tells it from others that have had its slot. */
  readonly serial: number;
  readonly descriptor: number;
  /** Address and port of its client, where they were noted when it came: see Serving. */
  readonly peer: string | undefined;
  /** The place of its listener among those of the server, where it was noted as `peer` is. */
  readonly listener: number | undefined;
  /** Monotonic ms. */
  readonly openedAtMs: number;
  /** When it was sent something last, or came; monotonic ms. */
  readonly answeredAtMs: number;
  readonly uses: string;
  /** The first of the tubes that it watches, and how many they are. */
  readonly watches: readonly string[];
  readonly watchCount: number;
  readonly isProducer: boolean;
  readonly isWorker: boolean;
  /** It is in the middle of a command that may wait for a job. */
  readonly waits: boolean;
  /** Bytes that have come and not been looked at, and replies that have not been sent. */
  readonly bytesIn: number;
  readonly bytesOut: number;
}
