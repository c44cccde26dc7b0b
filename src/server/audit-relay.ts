// Relay of changes by hand from the acceptors to the log and to the audit of the HTTP thread.

import { changeText, type ManualChange } from "../message/manual-change.ts";

/** As many as the HTTP thread keeps. */
const WAITING_MAX = 500;

export class AuditRelay {
  readonly #say: (line: string) => void;
  readonly #toHttp: ((changes: readonly ManualChange[]) => void) | undefined;
  /**
   * Changes that wait until the HTTP thread has taken the previous ones: the latest, and no more.
   */
  #waiting: ManualChange[] = [];
  #underWay = false;

  /** Without an HTTP thread, `toHttp` is undefined. */
  constructor(say: (line: string) => void, toHttp: ((changes: readonly ManualChange[]) => void) | undefined) {
    this.#say = say;
    this.#toHttp = toHttp;
  }

  take(changes: readonly ManualChange[], dropped: number): void {
    for (const change of changes) this.#say(changeText(change));
    if (dropped > 0) this.#say(`audit: ${dropped} further changes in the meantime were not recorded`);
    if (this.#toHttp === undefined) return;
    this.#waiting.push(...changes);
    if (this.#waiting.length > WAITING_MAX) this.#waiting = this.#waiting.slice(-WAITING_MAX);
    if (!this.#underWay) this.#send(this.#toHttp);
  }

  /** Called when the HTTP thread has taken the last ones. */
  taken(): void {
    this.#underWay = false;
    this.flush();
  }

  /** Sends what waits, before an answer to a question that the HTTP thread asked after it. */
  flush(): void {
    if (this.#toHttp !== undefined) this.#send(this.#toHttp);
  }

  #send(toHttp: (changes: readonly ManualChange[]) => void): void {
    if (this.#waiting.length === 0) return;
    this.#underWay = true;
    toHttp(this.#waiting);
    this.#waiting = [];
  }
}
