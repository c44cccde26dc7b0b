// Who changed what by hand: the last changes, in memory. The log has them all, but for a flood.

export interface Change {
  /** Wall clock, ms. */
  readonly atMs: number;
  /** Of the token; null where there are none. */
  readonly who: string | null;
  /** Null for a unix socket. */
  readonly address: string | null;
  readonly method: string;
  /** The template of the route. */
  readonly route: string;
  /** What stood in the path: a tube, a job, a connection, a task. */
  readonly what: Readonly<Record<string, string>>;
  /** Jobs; null where none are counted, or a task goes on. */
  readonly affected: number | null;
  readonly status: number;
}

const CHANGES_MAX = 500;

export class AuditLog {
  readonly #changes: Change[] = [];

  note(change: Change): void {
    this.#changes.push(change);
    if (this.#changes.length > CHANGES_MAX) this.#changes.shift();
  }

  /** The latest first. */
  get latest(): readonly Change[] {
    return this.#changes.toReversed();
  }
}

/** As a line of the log. */
export function changeText({ who, address, method, route, what, affected, status }: Change): string {
  const names = Object.entries(what).map(([name, value]) => ` ${name}=${value}`);
  const count = affected === null ? "" : ` affected=${affected}`;
  return `audit: ${who ?? "somebody"} (${address ?? "unix socket"}) ${method} ${route}${names.join("")}${count}: ${status}`;
}
