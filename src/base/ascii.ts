// Bytes of the wire, by name.

export const TAB = 0x09;
export const LF = 0x0a;
export const CR = 0x0d;
export const SPACE = 0x20;
export const PLUS = 0x2b;
export const HYPHEN = 0x2d;
export const ZERO = 0x30;
export const NINE = 0x39;
