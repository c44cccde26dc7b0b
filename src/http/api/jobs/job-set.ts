// Schemas of the properties of a job that a request may change.

import { type Static, Type } from "typebox";
import { Problem } from "../problem.ts";
import { Fields } from "../schemas.ts";

const number = (description: string) =>
  Type.Optional(Type.Integer({ minimum: 0, maximum: 2 ** 32 - 1, description }));
const fields = {
  pri: number("Smaller numbers go first."),
  delay: number("Seconds from now; 0 makes the job ready."),
  ttr: number("Seconds that a worker may hold the job."),
};
export const JobSet = Fields(fields, "At least one of them.");
/** For a single job, the tube may change too. */
export const JobUpdate = Fields(
  { ...fields, tube: Type.Optional(Type.String({ description: "Moves the job there; it keeps its id." })) },
  "At least one of them.",
);

export function requireSomething(set: Static<typeof JobUpdate>, names = "pri, delay and ttr"): void {
  if (Object.keys(set).length === 0) throw new Problem("bad-request", `Give at least one of ${names}.`);
}

/** Replaces a ttr of 0 by 1, as a put does. */
export const withTtr = (set: Static<typeof JobSet>): Static<typeof JobSet> =>
  set.ttr === undefined ? set : { ...set, ttr: Math.max(1, set.ttr) };
