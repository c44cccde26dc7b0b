// Writes the arguments of commands, and lets nothing through that would be read as something else.

type Writer = (value: never, name: string) => string;

const U32_MAX = 4_294_967_295;
const TUBE = /^[A-Za-z0-9+/;.$_()][-A-Za-z0-9+/;.$_()]{0,199}$/;
const VALUE = /^[!-~\x80-\xff]{1,200}$/;

export function tubeName(name: string): string {
  if (typeof name === "string" && TUBE.test(name)) return name;
  throw new TypeError(`${JSON.stringify(name)} is no name of a tube`);
}

/** A tube, `prefix*` or `*`. */
export const tubePattern = (name: string): string =>
  name === "*" || (name.endsWith("*") && TUBE.test(name.slice(0, -1))) ? name : tubeName(name);

export function whole(value: number, name: string, most = U32_MAX): string {
  if (Number.isInteger(value) && value >= 0 && value <= most) return `${value}`;
  throw new RangeError(`${name} is ${value}, not a whole number from 0 to ${most}`);
}

export const wholeLong = (value: number, name = "id"): string => whole(value, name, Number.MAX_SAFE_INTEGER);

/** Seconds, to the next millisecond. */
export function duration(seconds: number, name: string): string {
  const ms = Math.ceil(seconds * 1000 - 1e-6);
  if (ms >= 0 && ms <= U32_MAX * 1000) return `${ms / 1000}`;
  throw new RangeError(`${name} is ${seconds}, not seconds from 0 to ${U32_MAX}`);
}

/** Seconds for commands of beanstalkd: a part of one is a whole one. */
export const wholeSeconds = (seconds: number, name: string): string =>
  `${Math.ceil(Number(duration(seconds, name)))}`;

/** Of bytes as a line has them: a character each. */
function valid(bytes: string, name: string): string {
  if (VALUE.test(bytes)) return bytes;
  throw new TypeError(`${name} must have 1 to 200 bytes without blanks and control characters`);
}

const word = (value: string, name: string): string => valid(Buffer.from(`${value}`).toString("latin1"), name);

/** Of a filter: any text or bytes, with %XX for what can't stand in a line. */
const text = (value: string | Uint8Array, name: string): string => {
  const bytes = Buffer.from(value as Uint8Array).toString("latin1");
  const escaped = (char: string): string => `%${char.charCodeAt(0).toString(16).padStart(2, "0")}`;
  return valid(bytes.replace(/[^!-$&-~\x80-\xff]/g, escaped), name);
};

const words = (value: string | readonly string[], name: string): string =>
  word([value].flat().join(","), name);

/** How each option is written; the key `uniqueFor` is `unique-for` on the wire. */
export const PUT_OPTIONS = {
  unique: word,
  uniqueFor: duration,
  uniqueUntil: word,
  group: word,
  weight: whole,
  ttl: duration,
};
export const UPDATE_OPTIONS = { pri: whole, delay: duration, ttr: whole, ttl: duration, tube: tubeName };
export const FILTER_OPTIONS = {
  state: words,
  older: duration,
  contains: text,
  group: text,
  limit: whole,
  show: whole,
  as: word,
};
export const SETTINGS = {
  maxAttempts: whole,
  deadLetter: tubeName,
  backoff: duration,
  backoffMax: duration,
  ttl: duration,
  expire: word,
  maxJobs: wholeLong,
  maxBytes: wholeLong,
  maxReserved: whole,
  rate: word,
  burst: whole,
  groupMaxReserved: whole,
  maxGroups: whole,
};

/** ` unique-for=60 group=a`: what is undefined is left out, what is null is written empty. */
export function written(options: object, writers: Readonly<Record<string, Writer>>): string {
  const entries = Object.entries(options).filter(([, value]) => value !== undefined);
  return entries.map(([name, value]) => ` ${kebabCase(name)}=${one(writers, name, value)}`).join("");
}

function one(writers: Readonly<Record<string, Writer>>, name: string, value: unknown): string {
  const write = Object.hasOwn(writers, name) ? writers[name] : undefined;
  if (write === undefined) throw new TypeError(`there is no option ${name}`);
  return value === null ? "" : write(value as never, name);
}

const kebabCase = (name: string): string => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
