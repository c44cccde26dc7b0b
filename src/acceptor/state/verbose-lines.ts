// Lines of -V and -VV on their way to the main thread: one batch at a time, the next when that has been
// taken. So what a main thread that is slower than the clients has not yet taken is bounded; lines beyond are
// dropped and counted.

const LINES_MAX = 1000;

export class VerboseLines {
  readonly #send: (lines: string[], dropped: number) => void;
  #lines: string[] = [];
  #dropped = 0;
  #underWay = false;

  constructor(send: (lines: string[], dropped: number) => void) {
    this.#send = send;
  }

  say(line: string): void {
    if (this.#lines.length < LINES_MAX) this.#lines.push(line);
    else this.#dropped++;
    if (!this.#underWay) this.flush();
  }

  /** The main thread has taken the last batch. */
  taken(): void {
    this.#underWay = false;
    this.flush();
  }

  /** Sends what there is, also if the last batch is still under way: for the last words. */
  flush(): void {
    if (this.#lines.length === 0 && this.#dropped === 0) return;
    this.#underWay = true;
    this.#send(this.#lines, this.#dropped);
    this.#lines = [];
    this.#dropped = 0;
  }
}
