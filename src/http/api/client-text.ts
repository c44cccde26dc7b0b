// Texts that clients of the beanstalkd protocol have sent: names and reasons.

/**
 * Returns Latin-1 bytes of the protocol as text: UTF-8, as far as it is, without a last character
 * that was cut.
 */
export const textOf = (latin1: string): string =>
  new TextDecoder("utf-8", { ignoreBOM: true }).decode(Buffer.from(latin1, "latin1"), { stream: true });
