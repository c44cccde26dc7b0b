// Error that ends a task: the target tube or its shard refuses the jobs that the task moves or
// copies.

export class TaskRefused extends Error {
  /** The reply that a put would get, such as `TUBE_FULL`. */
  readonly refusal: string;

  /** `done` says what the task did before that, such as `After 2 copies, a put`. */
  constructor(refusal: string, done: string) {
    super(`${done} was refused: ${refusal}`);
    this.refusal = refusal;
  }
}
