// Answers of shards to Control requests, on their way through an acceptor.

/** Part of an answer to a Control request. */
export interface ControlAnswer {
  readonly shard: number;
  /** A set of ResponseFlag bits. */
  readonly flags: number;
  /** The number of the request. */
  readonly number: number;
  /** If the answer is Durable: the shard's record that it waits for. */
  readonly recordNumber: number;
  /** Valid only during the call. */
  readonly payload: Uint8Array;
}

export interface ControlAnswers {
  onAnswer(answer: ControlAnswer): void;
}
