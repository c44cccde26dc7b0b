// Facts about a connection, for monitoring.

/** Watched tubes listed for each connection. */
export const NAMED_TUBES_MAX = 20;

export interface ConnectionFacts {
  readonly slot: number;
  /** Distinguishes this connection from others that used the same slot. */
  readonly serial: number;
  readonly descriptor: number;
  /** Address and port of the client, if they were recorded: see ConnectionContext. */
  readonly peer: string | undefined;
  /** The name that the client gave itself. */
  readonly name: string | undefined;
  /** Index of its listener among those of the server, if it was recorded: see ConnectionContext. */
  readonly listener: number | undefined;
  /** In monotonic ms. */
  readonly openedAtMs: number;
  /**
   * When bytes were last sent to the client or, before that, when it arrived; in monotonic ms.
   */
  readonly answeredAtMs: number;
  readonly uses: string;
  /** The first of the watched tubes, and the number of all. */
  readonly watches: readonly string[];
  readonly watchCount: number;
  readonly isProducer: boolean;
  readonly isWorker: boolean;
  /** Whether it is executing a command that may wait for a job. */
  readonly waits: boolean;
  /** Bytes received but not processed, and bytes of replies not sent. */
  readonly bytesIn: number;
  readonly bytesOut: number;
}
