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
