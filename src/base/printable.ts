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
