// Requests that browse and manage over HTTP.

import { after, before } from "node:test";
import { type HttpServer, startHttpServer } from "../support/server/http-server.ts";
import { WireClient } from "../support/server/wire-client.ts";

/** More than the fields of a job contain of its body. */
export const BIG_BYTES = 200_000;

interface ListedJob {
  readonly id: number;
  readonly body: string;
  readonly state: string;
  readonly tube: string;
  readonly pri: number;
}

/** Asks the server that `server` returns, once it runs. */
export class ManageRequests {
  readonly #server: () => HttpServer;

  constructor(server: () => HttpServer) {
    this.#server = server;
  }

  // biome-ignore lint/suspicious/noExplicitAny: a test says what it expects of it
  readonly get = async (path: string): Promise<any> => (await this.#server().ask(path)).json;

  /** Returns all items of a list, page by page. */
  readonly all = async (path: string): Promise<ListedJob[]> => {
    const items = [];
    let cursor: string | null = "";
    while (cursor !== null) {
      const page = await this.get(`${path}${cursor === "" ? "" : `&cursor=${cursor}`}`);
      items.push(...page.items);
      cursor = page.cursor;
    }
    return items;
  };

  /** Returns how many jobs the last change in the audit log affected, and its status. */
  readonly lastChange = async (): Promise<[affected: number, status: number]> => {
    const [{ affected, status }] = (await this.get("/v1/audit")).items;
    return [affected, status];
  };

  readonly putTo = async (tube: string, count: number, more: object = {}): Promise<number[]> => {
    const jobs = Array.from({ length: count }, (_, n) => ({ body: `${n}`, ...more }));
    const { results } = (await this.#server().ask(`/v1/tubes/${tube}/jobs`, { json: { jobs } })).json;
    return results.map(({ id }: { id: number }) => id);
  };
}

/** A server with three shards, a client and requests, for the tests of a describe block. */
export class ManagedServer {
  server!: HttpServer;
  client!: WireClient;
  readonly requests: ManageRequests = new ManageRequests(() => this.server);

  constructor() {
    before(async () => {
      this.server = await startHttpServer("--shards", "3", "--acceptors", "1", "-z", `${BIG_BYTES}`);
      this.client = await WireClient.connect(this.server.process.address);
    });
    after(async () => {
      this.client.socket.destroy();
      await this.server.process.stop();
    });
  }
}
