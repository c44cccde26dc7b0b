// Context of jobs: the pairs of `meta`, in puts and in replies.

// Codecs between a program's values and the bodies of jobs.

export interface Codec<Out, In = Out> {
  encode(value: In): Uint8Array;
  /** May throw. It is called when `job.body` is read, so the job can still be buried. */
  decode(bytes: Uint8Array): Out;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Default codec: bytes stay as they are, and text becomes UTF-8. */
export const plain: Codec<Uint8Array, Uint8Array | string> = {
  encode: (value) => (typeof value === "string" ? encoder.encode(value) : value),
  decode: (bytes) => bytes,
};

export const text = (): Codec<string> => ({
  encode: (value) => encoder.encode(value),
  decode: (bytes) => decoder.decode(bytes),
});

/** The producer promises the type; nothing checks it. */
export const json = <T>(): Codec<T> => ({
  encode: (value) => {
    const written = JSON.stringify(value);
    if (written === undefined) throw new TypeError("this value cannot be written as JSON");
    return encoder.encode(written);
  },
  decode: (bytes) => JSON.parse(decoder.decode(bytes)) as T,
});

export type Meta = Readonly<Record<string, string>>;

const NAME = /^[-A-Za-z0-9._]+$/;
const PAIR = /^[!-~\x80-\xff]{1,200}$/;
/** Maximum length of all options of a put, with two more bytes for each. */
const OPTIONS_BYTES_MAX = 1020;
/** Length of an option whose value is sent as a number. */
const NUMBER_BYTES = 10;
/** Lists that may lose members, by W3C Trace Context and W3C Baggage. */
const LISTS = ["tracestate", "baggage"];

/** Returns a pair with a character for each byte; undefined for one that the server refuses. */
function pairText(name: string, value: unknown): string | undefined {
  if (typeof value !== "string" || !NAME.test(name) || !value.isWellFormed()) return undefined;
  const pair = Buffer.from(`${name}:${value}`).toString("latin1");
  return PAIR.test(pair) ? pair : undefined;
}

/** Formats ` meta=<name>:<value>` for each pair. Throws TypeError for one that can't be sent. */
export function metaText(meta: Readonly<Record<string, string | undefined>>): string {
  let text = "";
  for (const [name, value] of Object.entries(meta)) {
    if (value === undefined) continue;
    const pair = pairText(name, value);
    if (pair === undefined)
      throw new TypeError(
        `meta ${JSON.stringify(name)}: ${JSON.stringify(value)}, but a name has letters, digits, "-", "_" and ` +
          `".", a value is text without blanks and control characters, and both have at most 199 bytes`,
      );
    text += ` meta=${pair}`;
  }
  return text;
}

/** Throws RangeError if the options of a put are longer than the server accepts. */
export function checkOptionsBytes(options: string): void {
  const bytes = sum(values(options).map((value) => value.length + 2));
  if (bytes > OPTIONS_BYTES_MAX)
    throw new RangeError(
      `the options of a put and its meta have ${bytes} bytes, with two more for each, not at most ` +
        `${OPTIONS_BYTES_MAX}: put long values into the body`,
    );
}

/**
 * Adds a trace's context to the options of a put, as far as the server accepts it. Lists lose their
 * last members first; any other value that is too long is left out.
 */
export function withContext(options: string, context: Meta): string {
  let text = options;
  let left =
    OPTIONS_BYTES_MAX - sum(values(options).map((value) => Math.max(NUMBER_BYTES, value.length + 2)));
  for (const [name, value] of Object.entries(context)) {
    const bytesOf = (part: string): number => (pairText(name, part)?.length ?? OPTIONS_BYTES_MAX) + 2;
    const members = LISTS.includes(name) ? value.split(",").map((member) => member.trim()) : [value];
    while (members.length > 0 && bytesOf(members.join(",")) > left) members.pop();
    if (members.length === 0) continue;
    text += ` meta=${pairText(name, members.join(","))}`;
    left -= bytesOf(members.join(","));
  }
  return text;
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0);

/** Returns the values of options in their written form; no value has a blank. */
const values = (options: string): string[] =>
  options
    .split(" ")
    .slice(1)
    .map((option) => option.slice(option.indexOf("=") + 1));

/** Returns pairs of a reply, in Latin-1, as a map. The last pair with a name counts. */
export const metaOf = (pairs: readonly string[]): Meta =>
  Object.fromEntries(
    pairs.map((pair) => {
      const text = Buffer.from(pair, "latin1").toString();
      const colon = text.indexOf(":");
      return [text.slice(0, colon), text.slice(colon + 1)];
    }),
  );
