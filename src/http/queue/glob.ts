// Globs over names of tubes, as clients give them: `*` for any characters, `?` for one. No regular expressions, so that none
// can be slow on purpose: this takes at most the product of both lengths, 200 x 200.

export function matchesGlob(glob: string, name: string): boolean {
  let at = 0;
  let from = 0;
  let star = -1;
  let taken = 0;
  while (at < name.length) {
    if (from < glob.length && glob[from] === "*") {
      star = from++;
      taken = at;
    } else if (from < glob.length && (glob[from] === "?" || glob[from] === name[at])) {
      from++;
      at++;
    } else if (star >= 0) {
      from = star + 1;
      at = ++taken;
    } else return false;
  }
  while (glob[from] === "*") from++;
  return from === glob.length;
}
