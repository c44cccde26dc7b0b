// The servers whose job ids mean the same jobs here: this one, and those whose log it continues.
//
// A job id alone does not say which job is meant: a server without a log begins at 1 again, and one
// that starts from a backup gives the ids after the backup a second time. Together with the server
// that gave it, an id is unique.

export interface Origin {
  /** 16 hex digits of a process, or the id of a group. */
  readonly id: string;
  /** Job ids of that server below this one are valid here. Infinity for the server itself. */
  readonly below: number;
}

/**
 * Returns the origins for the starts of a log, each with the first job id that the server could
 * give; both lists begin with the newest. A log that lost its end may give ids twice, so the lowest
 * first id of all later starts counts.
 */
export function originsOf(starts: readonly (readonly [id: string, firstJobId: number])[]): Origin[] {
  let below = Number.POSITIVE_INFINITY;
  return starts.map(([id, firstJobId]) => {
    const origin = { id, below };
    below = Math.min(below, firstJobId);
    return origin;
  });
}

/** Composes the text of the command `origins`. */
export const originsText = (origins: readonly Origin[]): string =>
  `---\n${origins.map(({ id, below }) => `${id}: ${below === Number.POSITIVE_INFINITY ? "all" : below}\n`).join("")}`;
