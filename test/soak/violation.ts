// Error of the ledger: a broken promise of the server, with everything known about the job.

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
