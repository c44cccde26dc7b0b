// Names of figures and settings in their other forms, and objects with a value for each.

/** "max-jobs" for "maxJobs", as on the wire; "max_jobs" with `_`, as in metrics. */
export const wordOf = (name: string, between: "-" | "_" = "-"): string =>
  name.replaceAll(/[A-Z]/g, (letter) => `${between}${letter.toLowerCase()}`);

export const eachOf = <Name extends string, Value>(
  names: readonly Name[],
  toValue: (name: Name) => Value,
): Record<Name, Value> =>
  Object.fromEntries(names.map((name) => [name, toValue(name)])) as Record<Name, Value>;
