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

/** Above all ids of servers. */
const UNSEEN_ID = 2 ** 48;

const isUnknown = ({ result }: Recorded): boolean => result === "unknown";
const mayBeUndone = (each: Recorded): boolean => isUnknown(each) && each.returnUs < NEVER_US;

/**
 * Returns the operations without those of unknown outcome that say nothing: looks, and what was
 * sent after another server had the lead. A put whose job was seen gets its id. One whose job never
 * was had no effect, or one that was undone before anybody had the job.
 */
export function withOutcomes(recorded: readonly Recorded[], canUndo: boolean): readonly Recorded[] {
  const ids = new Map(
    recorded.filter(({ job, body }) => job > 0 && body !== "").map(({ job, body }) => [body, job]),
  );
  const idOf = (put: Recorded, index: number): number =>
    ids.get(put.body) ?? (canUndo && mayBeUndone(put) ? UNSEEN_ID + index : 0);
  const known = recorded
    .map((each, index) =>
      isUnknown(each) && each.kind === "put" ? { ...each, job: idOf(each, index) } : each,
    )
    .filter((each) => !isUnknown(each) || isKept(each));
  return canUndo ? withUndoing(known) : known;
}

const isKept = ({ kind, job, callUs, returnUs }: Recorded): boolean =>
  CHANGES.has(kind) && (kind !== "put" || job > 0) && callUs <= returnUs;

/** The operations, and the moments at which those of unknown outcome may have been undone. */
function withUndoing(recorded: readonly Recorded[]): readonly Recorded[] {
  const numbered = recorded.map((each, index) => (mayBeUndone(each) ? { ...each, effect: index + 1 } : each));
  const undoing = numbered
    .filter(mayBeUndone)
    .map(({ effect, callUs, returnUs }): Recorded => ({ ...BLANK, kind: "undo", effect, callUs, returnUs }));
  return [...numbered, ...undoing];
}
