// A TCP proxy that alters one reply: the differential test must notice, or it proves nothing.

import type { AddressInfo } from "node:net";
import { createConnection, createServer, type Server } from "node:net";
import type { Address } from "../conversations/lockstep-side.ts";

export interface TamperingProxy {
  readonly address: Address;
  /** Altered pieces of data so far. */
  readonly altered: () => number;
  close(): void;
}

/**
 * Replaces `pattern` by `replacement` in what the server sends, once, after `skip` other matches.
 */
export async function startTamperingProxy(
  target: Address,
  pattern: RegExp,
  replacement: string,
  skip: number,
): Promise<TamperingProxy> {
  let matches = 0;
  let altered = 0;
  const server: Server = createServer({ allowHalfOpen: true }, (client) => {
    const upstream = createConnection({ ...target, allowHalfOpen: true });
    client.setNoDelay(true);
    upstream.setNoDelay(true);
    client.on("data", (bytes) => upstream.write(bytes));
    client.on("end", () => upstream.end());
    upstream.on("data", (bytes) => {
      const text = bytes.toString("latin1");
      const isTheOne = pattern.test(text) && matches++ === skip;
      if (isTheOne) altered++;
      client.write(Buffer.from(isTheOne ? text.replace(pattern, replacement) : text, "latin1"));
    });
    upstream.on("end", () => client.end());
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      one.on("error", () => other.destroy());
      one.on("close", () => other.destroySoon());
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return { address: { port, host: "127.0.0.1" }, altered: () => altered, close: () => server.close() };
}
