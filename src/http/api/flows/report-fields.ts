// Reports of the protocol whose quoted values and lists are JSON, with texts in Latin-1.

const keyOf = (key: string): string => key.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());

/**
 * Returns the fields of a report, with keys in camel case. Values that are not JSON are texts, or
 * null for `none` and `never`; a client's text is in quotes, so it may be "none".
 */
export function reportFields(body: Buffer): Readonly<Record<string, unknown>> {
  const lines = body.toString("latin1").trimEnd().split("\n").slice(1);
  return Object.fromEntries(
    lines.map((line) => {
      const colon = line.indexOf(":");
      const value = line.slice(colon + 2);
      const bare = value === "none" || value === "never" ? null : value;
      return [keyOf(line.slice(0, colon)), /^["[]/.test(value) ? JSON.parse(value) : bare];
    }),
  );
}

/** Returns the items of a list, each a line of JSON, and the value of its first line. */
export function reportList<Item>(body: Buffer): { next: string; items: Item[] } {
  const [first = "", , ...lines] = body.toString("latin1").trimEnd().split("\n").slice(1);
  return { next: first.slice("next: ".length), items: lines.map((line) => JSON.parse(line.slice(2))) };
}

/** Returns a client's text, decoded from UTF-8. */
export const utf8Of = (latin1: string): string => Buffer.from(latin1, "latin1").toString();
