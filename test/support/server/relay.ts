// Address behind which another server may come to be: passes connections on to a port on this
// machine.

import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import type { TestContext } from "node:test";

/**
 * Listens at a path, or a free port; returns the port, or 0 for a path. `onSent` is called for each
 * piece that a client sends.
 */
export async function relay(
  t: TestContext,
  portOf: () => number,
  path?: string,
  onSent: () => void = () => {},
): Promise<number> {
  const sockets = new Set<Socket>();
  const address = createServer((client) => {
    const server = connect(portOf(), "127.0.0.1");
    for (const socket of [client, server]) sockets.add(socket.on("error", () => {}));
    client.on("data", onSent).pipe(server).pipe(client);
    client.on("close", () => server.destroy());
    server.on("close", () => client.destroy());
  });
  await new Promise<void>((resolve) => {
    if (path === undefined) address.listen(0, "127.0.0.1", resolve);
    else address.listen(path, resolve);
  });
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    address.close();
  });
  return path === undefined ? (address.address() as AddressInfo).port : 0;
}
