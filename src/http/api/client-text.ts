// Texts from clients of the beanstalkd protocol: names and reasons.

/**
 * Returns Latin-1 bytes of the protocol as text: decodes UTF-8 where valid, and drops a truncated
 * last character.
 */
export const textOf = (latin1: string): string =>
  new TextDecoder("utf-8", { ignoreBOM: true }).decode(Buffer.from(latin1, "latin1"), { stream: true });
