// Audit log in memory: the last changes by hand. The server's log has all of them, except during a
// flood.

import type { ManualChange } from "../../message/manual-change.ts";

const CHANGES_MAX = 500;

export class AuditLog {
  readonly #changes: ManualChange[] = [];

  note(change: ManualChange): void {
    this.#changes.push(change);
    if (this.#changes.length > CHANGES_MAX) this.#changes.shift();
  }

  /** Returns the changes, newest first. */
  get latest(): readonly ManualChange[] {
    return this.#changes.toReversed();
  }
}
