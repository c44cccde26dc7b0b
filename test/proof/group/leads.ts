// Which process served each connection of a round, and when a later one served: by then it is
// settled what became of the commands that the earlier one had not answered.

import type { ServerGroup } from "../../support/server/server-group.ts";
import type { WireClient } from "../../support/server/wire-client.ts";
import { NEVER_US } from "../histories/operation.ts";
import { nowUs } from "../histories/recording-client.ts";

/** A client that waits for longer takes its connection for lost. */
const REPLY_MS = 4000;

export class Leads {
  readonly #group: ServerGroup;
  /** Processes in the order in which they began to serve, with the moment when that was known. */
  readonly #servedUs: Map<string, number> = new Map();
  readonly #servers: WeakMap<WireClient, string> = new WeakMap();

  constructor(group: ServerGroup) {
    this.#group = group;
  }

  /** A client of the server that answers. */
  async connect(): Promise<WireClient> {
    const client = await this.#group.connect();
    client.replyMs = REPLY_MS;
    const { remoteAddress, remotePort } = client.socket;
    const address = `${remoteAddress}:${remotePort}`;
    const server = this.#group.servers.find((each) => each.address === address);
    if (server === undefined) {
      client.close();
      throw new Error("the connection has ended, or its server has left");
    }
    const name = `${address} ${server.pid}`;
    this.#servers.set(client, name);
    if (!this.#servedUs.has(name)) this.#servedUs.set(name, nowUs());
    return client;
  }

  /** A process that has lost the lead ends, so none serves twice. */
  overUs(client: WireClient): number {
    const servers = [...this.#servedUs];
    const at = servers.findIndex(([name]) => name === this.#servers.get(client));
    return servers[at + 1]?.[1] ?? NEVER_US;
  }
}
