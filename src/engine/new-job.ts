// What a put says of its job. A Request is one; so is what a put in pieces is remembered as.

export interface NewJob {
  readonly id: number;
  readonly pri: number;
  readonly delaySeconds: number;
  readonly ttrSeconds: number;
  readonly bodyBytes: number;
  /** When the put was read, in monotonic ms: its age counts from then, and its delay. */
  readonly atMs: number;
}
