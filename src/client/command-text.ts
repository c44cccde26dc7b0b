// Formats the arguments of commands, and rejects values that the server would misread.

const U32_MAX = 4_294_967_295;
const TUBE = /^[A-Za-z0-9+/;.$_()][-A-Za-z0-9+/;.$_()]{0,199}$/;
const VALUE = /^[!-~\x80-\xff]{1,200}$/;

export const isTubeName = (name: string): boolean => TUBE.test(name);

export function tubeName(name: string): string {
  if (typeof name === "string" && isTubeName(name)) return name;
  throw new TypeError(`${JSON.stringify(name)} is not a valid tube name`);
}

/** Returns a valid tube name, `prefix*` or `*`. */
export const tubePattern = (name: string): string =>
  name === "*" || (name.endsWith("*") && TUBE.test(name.slice(0, -1))) ? name : tubeName(name);

export function whole(value: number, name: string, most = U32_MAX): string {
  if (Number.isInteger(value) && value >= 0 && value <= most) return `${value}`;
  throw new RangeError(`${name} is ${value}, not a whole number from 0 to ${most}`);
}

export const wholeLong = (value: number, name = "id"): string => whole(value, name, Number.MAX_SAFE_INTEGER);

/** Rounds up to the next thousandth: seconds to the millisecond. */
function number(value: number, name: string, most = Number.MAX_SAFE_INTEGER): string {
  const rounded = Number.isInteger(value) ? value : Math.ceil(value * 1000 - 1e-6) / 1000;
  if (rounded >= 0 && rounded <= most) return `${rounded}`;
  throw new RangeError(`${name} is ${value}, not from 0 to ${most}`);
}

export const duration = (seconds: number, name: string): string => number(seconds, name, U32_MAX);

/** Formats seconds for beanstalkd's commands, rounded up to whole seconds. */
export const wholeSeconds = (seconds: number, name: string): string =>
  `${Math.ceil(Number(duration(seconds, name)))}`;

/** Escapes arbitrary text and bytes: %XX replaces bytes that a line can't contain. */
const escaped = (bytes: string): string =>
  bytes.replace(/[^!-$&-~\x80-\xff]/g, (char) => `%${char.charCodeAt(0).toString(16).padStart(2, "0")}`);

/** Formats the value of an option. In a line, each character is a byte. */
function optionValue(value: unknown, name: string, isFilter: boolean): string {
  if (value === null) return "";
  if (typeof value === "number") return number(value, name);
  const text = Array.isArray(value) ? value.join(",") : value;
  const bytes = Buffer.from(text as string).toString("latin1");
  const written = isFilter ? escaped(bytes) : bytes;
  if (VALUE.test(written)) return written;
  throw new TypeError(`${name} must have 1 to 200 bytes without blanks and control characters`);
}

/**
 * Formats `{ unique: "a", uniqueFor: 60 }` as ` unique=a unique-for=60`. It omits undefined values,
 * and writes null as an empty value. The server validates names and numbers.
 */
export function optionsText(options: object, isFilter = false): string {
  const entries = Object.entries(options).filter(([, value]) => value !== undefined);
  return entries.map(([key, value]) => ` ${optionName(key)}=${optionValue(value, key, isFilter)}`).join("");
}

function optionName(key: string): string {
  if (/^[a-z][A-Za-z]{0,30}$/.test(key)) return key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  throw new TypeError(`${JSON.stringify(key)} is not a known option`);
}
