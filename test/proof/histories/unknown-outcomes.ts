// Operations whose answer was lost. Each takes effect at any later moment or, if it comes after all
// others, in effect never. Where another server took the lead, it had its effect before that; and
// what others had seen of it may be undone then, for only acknowledged changes are in the group.

import { BLANK, type Kind, NEVER_US, type Recorded } from "./operation.ts";

const CHANGES: ReadonlySet<Kind> = new Set([
  "put",
  "reserve",
  "reserve-job",
  "delete",
  "release",
  "bury",
  "touch",
  "kick",
  "kick-job",
]);

/**
 * Returns the operations without those of unknown outcome that say nothing: looks, puts of jobs
 * that were never seen, and what was sent after another server had the lead. A put whose job was
 * seen gets its id.
 */
export function withOutcomes(recorded: readonly Recorded[]): readonly Recorded[] {
  const ids = new Map(
    recorded.filter(({ job, body }) => job > 0 && body !== "").map(({ job, body }) => [body, job]),
  );
  return recorded
    .map((each) =>
      isUnknown(each) && each.kind === "put" ? { ...each, job: ids.get(each.body) ?? 0 } : each,
    )
    .filter(
      (each) =>
        !isUnknown(each) ||
        (CHANGES.has(each.kind) && (each.kind !== "put" || each.job > 0) && each.callUs <= each.returnUs),
    );
}

/** The operations, and the moments at which those of unknown outcome may have been undone. */
export function withUndoing(recorded: readonly Recorded[]): readonly Recorded[] {
  const numbered = recorded.map((each, index) => (isUndoable(each) ? { ...each, effect: index + 1 } : each));
  const undoing = numbered
    .filter(isUndoable)
    .map(({ effect, callUs, returnUs }): Recorded => ({ ...BLANK, kind: "undo", effect, callUs, returnUs }));
  return [...numbered, ...undoing];
}

const isUnknown = ({ result }: Recorded): boolean => result === "unknown";
const isUndoable = (each: Recorded): boolean => isUnknown(each) && each.returnUs < NEVER_US;
