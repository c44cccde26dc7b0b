// Counterpart of stepping-clock.ts: sets a server's wall clock, before its start or while it runs.

import { renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export class WallClock {
  /** Lead of the server's wall clock, ms. */
  offsetMs = 0;
  readonly #path = join(tmpdir(), `runnerbean-soak-clock-${process.pid}`);

  constructor() {
    this.step(0);
    process.once("exit", () => rmSync(this.#path, { force: true }));
  }

  step(offsetMs: number): void {
    this.offsetMs = offsetMs;
    // A reader sees the old number or the new one, never half of one.
    writeFileSync(`${this.#path}.new`, `${offsetMs}`);
    renameSync(`${this.#path}.new`, this.#path);
  }

  /** Environment of a server whose clock this is; `nodeOption` has to be among its NODE_OPTIONS. */
  get env(): Record<string, string> {
    return { SOAK_CLOCK_FILE: this.#path };
  }

  get nodeOption(): string {
    return `--import ${new URL("stepping-clock.ts", import.meta.url).href}`;
  }
}
