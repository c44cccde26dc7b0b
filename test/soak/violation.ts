// What the ledger throws: a promise of the server's that it has not kept, with all that is known of the job.

export class Violation extends Error {
  readonly history: readonly string[];

  constructor(message: string, history: readonly string[] = []) {
    super(message);
    this.name = "Violation";
    this.history = history;
  }

  /** The message and the job's history, one line an event. */
  get report(): string {
    return [this.message, ...this.history.map((line) => `    ${line}`)].join("\n");
  }
}
