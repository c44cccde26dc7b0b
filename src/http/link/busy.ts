/** The server has no room for one more of these now: try again in a moment. */
export class Busy extends Error {}
