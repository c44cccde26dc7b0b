// Readable forms of job bodies: formatted JSON and hex rows.

/** More rows would only slow down the browser. */
export const HEX_BYTES_MAX = 16_384;
const HEX_ROW = 16;
/** Beyond this depth, lines would be mostly indentation. */
const DEPTH_MAX = 64;

/**
 * Formats JSON with its values unchanged. Parsing and serialising it would alter large numbers and
 * drop duplicate keys. Returns undefined unless the text is a valid object or array.
 */
export function setOut(text: string | undefined): string | undefined {
  if (text === undefined || !/^\s*[[{]/.test(text)) return undefined;
  try {
    JSON.parse(text);
  } catch {
    return undefined;
  }
  // A string, a sign, or anything else up to the next sign.
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g) ?? [];
  return depthOf(tokens) > DEPTH_MAX ? undefined : lines(tokens);
}

const OPENS: ReadonlySet<string> = new Set("{[");
const CLOSES: ReadonlySet<string> = new Set("}]");

function lines(tokens: readonly string[]): string {
  let depth = 0;
  let last = "";
  let out = "";
  for (const token of tokens) {
    const closes = CLOSES.has(token);
    if (closes) depth--;
    // Empty objects and arrays stay on one line.
    if (last === "," || OPENS.has(last) !== closes) out += `\n${"  ".repeat(depth)}`;
    out += token === ":" ? ": " : token;
    if (OPENS.has(token)) depth++;
    last = token;
  }
  return out;
}

function depthOf(tokens: readonly string[]): number {
  let depth = 0;
  let deepest = 0;
  for (const token of tokens) {
    if (OPENS.has(token)) deepest = Math.max(deepest, ++depth);
    else if (CLOSES.has(token)) depth--;
  }
  return deepest;
}

/** Returns rows such as 00000000  68 65 6c 6c 6f …  |hello| */
export function hexRows(bytes: Uint8Array): string {
  const rows: string[] = [];
  const shown = Math.min(bytes.length, HEX_BYTES_MAX);
  for (let at = 0; at < shown; at += HEX_ROW) {
    const row = bytes.subarray(at, Math.min(at + HEX_ROW, shown));
    const hex = Array.from(row, (byte) => byte.toString(16).padStart(2, "0"));
    const left = hex.slice(0, 8).join(" ").padEnd(23);
    const right = hex.slice(8).join(" ").padEnd(23);
    const text = Array.from(row, (byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".")).join(
      "",
    );
    rows.push(`${at.toString(16).padStart(8, "0")}  ${left}  ${right}  |${text}|`);
  }
  return rows.join("\n");
}
