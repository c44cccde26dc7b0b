// `npm run test:whole` plays more of the same than `npm test`: CI has the time for it.

export const WHOLE = process.env["TESTS"] === "whole";

/** Returns how much to play: the first in whole runs. */
export const inWhole = <T>(whole: T, otherwise: T): T => (WHOLE ? whole : otherwise);
