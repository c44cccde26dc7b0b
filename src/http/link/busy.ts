/** Error for overload: the server has no capacity now, and the client should retry in a moment. */
export class Busy extends Error {}
