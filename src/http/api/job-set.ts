// What can be changed of jobs.

import { type Static, Type } from "typebox";
import { Problem } from "./problem.ts";
import { Fields } from "./schemas.ts";

const number = (description: string) =>
  Type.Optional(Type.Integer({ minimum: 0, maximum: 2 ** 32 - 1, description }));
export const JobSet = Fields(
  {
    pri: number("The smaller, the sooner."),
    delay: number("Seconds from now on; 0 makes it ready."),
    ttr: number("Seconds that a worker has."),
  },
  "At least one of them.",
);
export function requireSomething(set: Static<typeof JobSet>): void {
  if (Object.keys(set).length === 0)
    throw new Problem("bad-request", "Say at least one of pri, delay and ttr.");
}

/** As for a put, 0 is 1. */
export const withTtr = (set: Static<typeof JobSet>): Static<typeof JobSet> =>
  set.ttr === undefined ? set : { ...set, ttr: Math.max(1, set.ttr) };
