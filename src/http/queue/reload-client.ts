// Client that asks the main thread to reload the configuration.

/** The keys that took effect and those that need a restart; or all faults, with nothing changed. */
export type ReloadOutcome =
  | { readonly changed: readonly string[]; readonly needsRestart: readonly string[] }
  | { readonly faults: string };

export class ReloadClient {
  readonly #ask: (question: number) => void;
  readonly #waiting = new Map<number, (outcome: ReloadOutcome) => void>();
  #questions = 0;

  constructor(ask: (question: number) => void) {
    this.#ask = ask;
  }

  reload(): Promise<ReloadOutcome> {
    const question = this.#questions++;
    return new Promise((resolve) => {
      this.#waiting.set(question, resolve);
      this.#ask(question);
    });
  }

  onAnswer(question: number, outcome: ReloadOutcome): void {
    this.#waiting.get(question)?.(outcome);
    this.#waiting.delete(question);
  }
}
