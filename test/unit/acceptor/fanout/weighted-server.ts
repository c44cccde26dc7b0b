// A whole server in this process, with clients that work by weight, on virtual time.

import assert from "node:assert/strict";
import { shardOfTube } from "../../../../src/base/bytes.ts";
import type { FakeSocket } from "../../../simulation/server/fake-socket.ts";
import { InProcessServer } from "../../../simulation/server/in-process-server.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";

export interface Topology {
  readonly shards: number;
  readonly acceptors: number;
}

export const TOPOLOGIES: readonly Topology[] = [
  { shards: 1, acceptors: 1 },
  { shards: 2, acceptors: 2 },
  { shards: 4, acceptors: 3 },
];

/** Names of tubes, each on the next shard. */
export function tubesOver(shards: number, count: number): string[] {
  const names: string[] = [];
  for (let number = 0; names.length < count; number++) {
    const name = `t${number}`;
    const bytes = Buffer.from(name);
    if (shardOfTube(bytes, 0, bytes.length, shards) === names.length % shards) names.push(name);
  }
  return names;
}

export class WeightedServer {
  readonly server: InProcessServer;

  constructor({ shards, acceptors }: Topology, migrations = 0) {
    const placement = migrations > 0 ? "together" : undefined;
    this.server = new InProcessServer({
      ...{ shards, acceptors, random: new SeededRandom(1), holdUps: 0.1, migrations },
      ...(placement === undefined ? {} : { placement }),
    });
  }

  client(): WeightedClient {
    return new WeightedClient(this.server);
  }
}

export class WeightedClient {
  readonly socket: FakeSocket;
  readonly #server: InProcessServer;

  constructor(server: InProcessServer) {
    this.#server = server;
    this.socket = server.connect();
  }

  /** Sends lines; returns what comes back. */
  say(...lines: string[]): string {
    this.socket.write(Buffer.from(lines.map((line) => `${line}\r\n`).join(""), "latin1"));
    this.#server.settle();
    return this.socket.takeReceived().toString("latin1");
  }

  /** Puts jobs whose body is their tube. */
  put(tube: string, jobs: number, pri = 0, ttr = 60): void {
    for (let job = 0; job < jobs; job++) this.say(`put-in-tube ${tube} ${pri} 0 ${ttr} ${tube.length}`, tube);
  }

  /** Watches these tubes by weight, and not `default`. */
  watch(weights: Readonly<Record<string, number>>, order: string): void {
    for (const [tube, weight] of Object.entries(weights)) this.say(`watch ${tube} weight=${weight}`);
    this.say("ignore default");
    assert.equal(this.say(`reserve-order ${order}`), "SET\r\n");
  }

  /** Reserves one job, which has to be there; returns its id and its tube. */
  reserve(): { readonly id: number; readonly tube: string } {
    const [first, tube] = this.say("reserve-with-timeout 0").split("\r\n");
    const [word, id] = first!.split(" ");
    assert.equal(word, "RESERVED");
    return { id: Number(id), tube: tube! };
  }

  /** Reserves up to `count` jobs; returns their ids and tubes. */
  reserveBatch(count: number): { readonly id: number; readonly tube: string }[] {
    const lines = this.say(`reserve-batch ${count} 0 tubes=yes`).split("\r\n");
    return lines.flatMap((line) => {
      const [word, id, , tube] = line.split(" ");
      return word === "RESERVED" ? [{ id: Number(id), tube: tube! }] : [];
    });
  }

  delete(id: number): void {
    assert.equal(this.say(`delete ${id}`), "DELETED\r\n");
  }
}
