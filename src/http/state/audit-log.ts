// Audit log in memory: the last manual changes. The server's log has all of them, except during a
// flood.

export interface Change {
  /** Wall clock, ms. */
  readonly atMs: number;
  /** Name of the token; null without tokens. */
  readonly who: string | null;
  /** Null for a unix socket. */
  readonly address: string | null;
  readonly method: string;
  /** Template of the route. */
  readonly route: string;
  /** Parameters of the path: a tube, job, connection or task; `to` and `copy` of a move. */
  readonly what: Readonly<Record<string, string>>;
  /** Number of jobs; null if none are counted, or until the task that changes them has ended. */
  affected: number | null;
  readonly status: number;
}

const CHANGES_MAX = 500;

export class AuditLog {
  readonly #changes: Change[] = [];

  note(change: Change): void {
    this.#changes.push(change);
    if (this.#changes.length > CHANGES_MAX) this.#changes.shift();
  }

  /** Returns the changes, newest first. */
  get latest(): readonly Change[] {
    return this.#changes.toReversed();
  }
}

/** Returns a change as a line of the log. */
export function changeText({ who, address, method, route, what, affected, status }: Change): string {
  const names = Object.entries(what).map(([name, value]) => ` ${name}=${value}`);
  const count = affected === null ? "" : ` affected=${affected}`;
  return `audit: ${who ?? "somebody"} (${address ?? "unix socket"}) ${method} ${route}${names.join("")}${count}: ${status}`;
}
