// ASCII bytes of the wire protocol, by name.

export const TAB = 0x09;
export const LF = 0x0a;
export const CR = 0x0d;
export const SPACE = 0x20;
export const QUOTE = 0x22;
export const PERCENT = 0x25;
export const ASTERISK = 0x2a;
export const PLUS = 0x2b;
export const COMMA = 0x2c;
export const HYPHEN = 0x2d;
export const DOT = 0x2e;
export const SLASH = 0x2f;
export const ZERO = 0x30;
export const NINE = 0x39;
export const COLON = 0x3a;
export const EQUALS = 0x3d;
export const BACKSLASH = 0x5c;
export const UNDERSCORE = 0x5f;
export const LOWER_A = 0x61;
export const LOWER_Z = 0x7a;
export const DELETE = 0x7f;
