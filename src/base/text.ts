// Text from outside, for terminals: names, bodies, reasons, answers of other servers.
//
// A terminal obeys control characters wherever they come from: they set its title, clear it, or
// show other text than what was sent. So each program of ours escapes them before it prints, as
// "\u001b".

/** Controls (C0, DEL, C1), separators of lines, and marks that change the direction of text. */
const CONTROLS = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu;
const CONTROLS_IN_LINES = /(?![\n\t])[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu;

/** An escape of JavaScript and JSON, so that the text of a JSON value keeps its meaning. */
const escaped = (char: string): string => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;

/** Escapes what a terminal would obey, line breaks and tabs included: for a name or a cell. */
export const printable = (text: string): string => text.replace(CONTROLS, escaped);

/** The same for text of several lines, and for JSON. */
export const printableLines = (text: string): string => text.replace(CONTROLS_IN_LINES, escaped);

// Glob patterns: "*" matches any characters, "?" exactly one.

/**
 * Returns whether the whole name matches. The number of steps is at most the product of both
 * lengths.
 */
export function matchesGlob(pattern: string, name: string): boolean {
  let at = 0;
  let i = 0;
  // Position after the last star, and the end of the text that the star matched in the latest try.
  let star = -1;
  let starAt = 0;
  while (at < name.length) {
    if (i < pattern.length && pattern[i] === "*") {
      star = ++i;
      starAt = at;
    } else if (i < pattern.length && (pattern[i] === "?" || pattern[i] === name[at])) {
      i++;
      at++;
    } else if (star >= 0) {
      i = star;
      at = ++starAt;
    } else return false;
  }
  while (pattern[i] === "*") i++;
  return i === pattern.length;
}

// Comparison of Linux releases.

/** Returns whether a kernel release such as "6.18.44" is `since`, such as [6, 17], or later. */
export function isSince(kernelRelease: string, since: readonly [number, number]): boolean {
  const [major = 0, minor = 0] = kernelRelease.split(".").map(Number.parseFloat);
  return major > since[0] || (major === since[0] && minor >= since[1]);
}

// Names of the log's segments in their directory.

const NAME = /^runnerbean\.(\d{16})\.log$/;

export function segmentName(number: number): string {
  return `runnerbean.${String(number).padStart(16, "0")}.log`;
}

/** Returns the number in a segment's name, or 0 for other names. */
export function segmentNumber(name: string): number {
  const match = NAME.exec(name);
  return match === null ? 0 : Number(match[1]);
}
