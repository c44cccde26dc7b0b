// A tube, or its shard, takes no more of the jobs that a task moves or copies there: that ends the task.

export class TaskRefused extends Error {
  /** The reply that a put there would get, such as `TUBE_FULL`. */
  readonly refusal: string;

  /** `done` says what was done before, such as `After 2 copies a put`. */
  constructor(refusal: string, done: string) {
    super(`${done} was refused: ${refusal}`);
    this.refusal = refusal;
  }
}
