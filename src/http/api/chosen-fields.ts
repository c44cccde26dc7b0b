// The parameter `fields`: a client that needs only some fields of a long answer names them.

import { Type } from "typebox";
import { Problem } from "./problem.ts";

export const fieldsQuery = {
  fields: Type.Optional(Type.String({ description: "Some of its fields, separated by commas." })),
};

/** Returns these fields of a view, or all of them. `what` names the thing: "A tube". */
export function chosen<View extends object>(
  view: View,
  fields: string | undefined,
  what: string,
): Partial<View> {
  if (fields === undefined) return view;
  return Object.fromEntries(
    fields.split(",").map((field) => {
      if (!Object.hasOwn(view, field)) throw new Problem("bad-request", `${what} has no field "${field}".`);
      return [field, view[field as keyof View]];
    }),
  ) as Partial<View>;
}
