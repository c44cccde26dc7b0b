// Lines of -V and -VV on their way to the main thread. The next batch is sent when the main thread
// has taken the previous one. That bounds the backlog of a main thread that is slower than the
// clients: excess lines are dropped and counted.

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

  /** Called when the main thread has taken the last batch. */
  taken(): void {
    this.#underWay = false;
    this.flush();
  }

  /**
   * Sends the gathered lines even if the last batch was not taken yet: for the last lines before an
   * exit.
   */
  flush(): void {
    if (this.#lines.length === 0 && this.#dropped === 0) return;
    this.#underWay = true;
    this.#send(this.#lines, this.#dropped);
    this.#lines = [];
    this.#dropped = 0;
  }
}
