// Proxy between a client and a server that cuts connections, refuses new ones, delays replies and
// counts.

import { createServer, connect as dial, type Server, type Socket } from "node:net";
import type { ServerProcess } from "../support/server/server-process.ts";

export class BrokenNetwork {
  /** New connections are closed at once. */
  isRefusing = false;
  /** Accepted so far. */
  connections = 0;
  /** From clients, on all connections. */
  bytes = 0;
  readonly #pairs = new Set<readonly [Socket, Socket]>();
  readonly #server: Server;
  #heldBack: (() => void)[] | undefined;

  private constructor(server: ServerProcess) {
    this.#server = createServer((client) => this.#accept(client, server));
  }

  static async before(server: ServerProcess): Promise<BrokenNetwork> {
    const proxy = new BrokenNetwork(server);
    await new Promise<void>((resolve) => proxy.#server.listen(0, "127.0.0.1", resolve));
    return proxy;
  }

  get address(): string {
    const address = this.#server.address();
    return typeof address === "object" && address !== null ? `127.0.0.1:${address.port}` : "";
  }

  /** Ends all connections, as a network does that fails. */
  cut(): void {
    for (const [client, upstream] of this.#pairs) {
      client.resetAndDestroy();
      upstream.resetAndDestroy();
    }
  }

  /** Replies wait from now on. */
  holdReplies(): void {
    this.#heldBack ??= [];
  }

  letRepliesGo(): void {
    const held = this.#heldBack ?? [];
    this.#heldBack = undefined;
    for (const send of held) send();
  }

  close(): void {
    this.cut();
    this.#server.close();
  }

  #accept(client: Socket, server: ServerProcess): void {
    client.on("error", () => {});
    if (this.isRefusing) return void client.destroy();
    this.connections++;
    const upstream = dial(server.address);
    const pair = [client, upstream] as const;
    this.#pairs.add(pair);
    upstream.on("error", () => {});
    client.on("data", (chunk) => {
      this.bytes += chunk.length;
      upstream.write(chunk);
    });
    upstream.on("data", (chunk) => {
      const send = (): void => void client.write(chunk);
      if (this.#heldBack === undefined) send();
      else this.#heldBack.push(send);
    });
    client.on("end", () => upstream.end());
    upstream.on("end", () => client.end());
    for (const [one, other] of [pair, [upstream, client]] as const)
      one.on("close", () => {
        this.#pairs.delete(pair);
        other.destroy();
      });
  }
}
