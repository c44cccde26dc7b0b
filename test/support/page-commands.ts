// Commands that a page shows: in blocks of shell code, and as inline code.

const COMMAND =
  /^(?:[A-Z_]+=\S+ )*(?:sudo )?(?:npm|npx|node|runnerbean|make|\.ci\/\S+|bin\/runnerbean)(?=\s|$)/;
/** Languages of code blocks that hold shell commands; blocks without a language do, too. */
const SHELLS: ReadonlySet<string> = new Set(["", "sh", "bash", "console", "shell"]);

/** Without comments. Several spaces in a row are one. */
export function commandsIn(page: string): string[] {
  return codeIn(page)
    .map((code) =>
      code
        .replace(/\s+#.*$/, "")
        .replaceAll("\\|", "|")
        .replace(/\s+/g, " ")
        .trim(),
    )
    .filter((code) => COMMAND.test(code));
}

function codeIn(page: string): string[] {
  const found: string[] = [];
  let language: string | undefined;
  for (const line of page.split("\n")) {
    const fence = /^ *```(\w*)/.exec(line);
    if (fence !== null) language = language === undefined ? fence[1]! : undefined;
    else if (language !== undefined) {
      if (SHELLS.has(language)) found.push(line.trim().replace(/^\$ /, ""));
    } else if (/^ {4}\S/.test(line)) found.push(line.trim());
    else for (const [, code] of line.matchAll(/`([^`]+)`/g)) found.push(code!);
  }
  return found;
}
