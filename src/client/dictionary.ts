// Reads the server's reports: YAML, as flat as beanstalkd writes it.

/** What is text even if it is made of digits. */
const TEXTS = /^(?:name|tube|version|hostname|os|platform|unique|group|origin|reason|holder)$/;
/** Longer ones are no numbers of JavaScript, but names made of digits. */
const NUMBER = /^-?\d{1,15}(?:\.\d+)?$/;

/** The words of a text, as a type. */
export type Words<Text extends string> = Text extends `${infer One} ${infer More}` ? One | Words<More> : Text;

/** All lines but the first, `---`. */
export const reportLines = (body: Uint8Array | undefined): string[] =>
  Buffer.from(body ?? [])
    .toString()
    .trimEnd()
    .split("\n")
    .slice(1);

export const unquoted = (value: string): string => value.replace(/^"(.*)"$/, "$1");

/** `current-jobs-ready: 7` is `current-jobs-ready`, 7. */
export const reportEntries = (body: Uint8Array | undefined): [key: string, value: string | number][] =>
  reportLines(body).map((line) => {
    const [, key = "", value = ""] = /^([^:]*): ?(.*)$/.exec(line) ?? [];
    return [key, NUMBER.test(value) && !TEXTS.test(key) ? Number(value) : unquoted(value)];
  });

/** The same as an object, with keys as JavaScript has them: `currentJobsReady`. */
export const parseReport = <T>(body: Uint8Array | undefined): T =>
  Object.fromEntries(reportEntries(body).map(([key, value]) => [camelCase(key), value])) as T;

export const camelCase = (key: string): string =>
  key.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
