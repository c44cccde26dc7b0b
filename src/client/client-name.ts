// The client's name on the server: the extension `name`.

import { hostname } from "node:os";

const NAME_BYTES_MAX = 63;
// biome-ignore lint/suspicious/noControlCharactersInRegex: a name can't have these
const BLANK_OR_CONTROL = /[\x00-\x20\x7f]/;

/**
 * Returns the name as the protocol's Latin-1: the given one, or host and process id; the label
 * follows after a slash. Throws TypeError for a name that the server would refuse.
 */
export function clientName(given: string | undefined, label?: string): string {
  const end = label === undefined ? "" : `/${label}`;
  const name = `${given ?? ownName(end)}${end}`;
  const bytes = Buffer.from(name);
  if (given === "" || label === "" || BLANK_OR_CONTROL.test(name) || bytes.length > NAME_BYTES_MAX)
    throw new TypeError(
      `${JSON.stringify(name)} is not a valid name: 1 to ${NAME_BYTES_MAX} bytes with the label, without blanks`,
    );
  return bytes.toString("latin1");
}

/** Returns the host, shortened so that the rest fits, and the process id. */
function ownName(end: string): string {
  const pid = `:${process.pid}`;
  const hostBytes = Math.max(1, NAME_BYTES_MAX - pid.length - Buffer.byteLength(end));
  return `${hostname()
    .replace(/[^!-~]/g, "_")
    .slice(0, hostBytes)}${pid}`;
}
