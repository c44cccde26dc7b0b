// Pattern language for bytes in transcripts: escapes, repetition and masks.

/**
 * Expected bytes: an exact text, or a text with masks. Texts are latin1: one character, one byte.
 */
export interface BytePattern {
  /** Spelling in the transcript. */
  readonly source: string;
  readonly matches: (bytes: string) => boolean;
}

const MASKS: Readonly<Record<string, string>> = {
  "{int}": "[0-9]+",
  "{float}": "[0-9]+\\.[0-9]{6}",
  "{hex16}": "[0-9a-f]{16}",
  "{any}": "[^\\r\\n]*",
};
const MASK = /\{(?:int|float|hex16|any)\}/g;
const REPEAT = /\{([^{}*]+)\*(\d+)\}/g;
const ESCAPE = /\\(x[0-9a-fA-F]{2}|.)/g;

/** Turns written text into bytes. `at` says where, for the error message. */
export function bytesOf(source: string, at: string): Buffer {
  return Buffer.from(expand(source, at), "latin1");
}

export function patternOf(source: string, at: string): BytePattern {
  if (source.search(MASK) < 0) {
    const exact = expand(source, at);
    return { source, matches: (bytes) => bytes === exact };
  }
  let pattern = "";
  let from = 0;
  for (const mask of source.matchAll(MASK)) {
    pattern += escapeForRegExp(expand(source.slice(from, mask.index), at)) + MASKS[mask[0]];
    from = mask.index + mask[0].length;
  }
  const expression = new RegExp(`^${pattern}${escapeForRegExp(expand(source.slice(from), at))}$`, "s");
  return { source, matches: (bytes) => expression.test(bytes) };
}

function expand(source: string, at: string): string {
  const repeated = source.replace(REPEAT, (_, text: string, count: string) => text.repeat(Number(count)));
  return repeated.replace(ESCAPE, (_, code: string) => {
    switch (code[0]) {
      case "r":
        return "\r";
      case "n":
        return "\n";
      case "t":
        return "\t";
      case "s":
        return " ";
      case "0":
        return "\0";
      case "\\":
        return "\\";
      case "x":
        return String.fromCharCode(Number.parseInt(code.slice(1), 16));
      default:
        throw new Error(`${at}: unknown escape: \\${code}`);
    }
  });
}

function escapeForRegExp(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&");
}
