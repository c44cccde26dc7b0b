// Servers that the client is tested on, and a queue for each test.

import { after, before, describe, it, type TestContext } from "node:test";
import { shardOfTube } from "../../src/base/bytes.ts";
import {
  type ConnectOptions,
  connect,
  type Job,
  NotFound,
  type Queue,
  type TubeStats,
} from "../../src/client/client.ts";
import { missing, NEEDS, type Need } from "../support/machine/need.ts";
import { type ServerKind, type ServerProcess, startServer } from "../support/server/server-process.ts";
import { BrokenNetwork } from "./broken-network.ts";

const SHARDS = 3;

const SERVERS: readonly { kind: ServerKind; need: Need; flags: readonly string[] }[] = [
  { kind: "beanstalkd-1.12", need: NEEDS.beanstalkd, flags: [] },
  { kind: "ours", need: NEEDS.ours, flags: ["--shards", `${SHARDS}`, "--acceptors", "2"] },
];

export type TextQueue = Queue<Uint8Array, Uint8Array | string>;

export const textOf = (job: Job<Uint8Array> | undefined): string => Buffer.from(job?.body ?? []).toString();

/** A name behind that of a tube, on the same shard. */
export function besides(tube: string, name: string): string {
  const shardOf = (text: string): number => shardOfTube(Buffer.from(text), 0, text.length, SHARDS);
  for (let number = 0; ; number++) {
    const other = `${tube}-${name}${number}`;
    if (shardOf(other) === shardOf(tube)) return other;
  }
}

/** A server for the tests of a describe block, and a queue for each of them. */
class ClientServer {
  readonly isPlain: boolean;
  #process: ServerProcess | undefined;
  #names = 0;

  constructor(kind: ServerKind, flags: readonly string[]) {
    this.isPlain = kind !== "ours";
    before(async () => {
      this.#process = await startServer({ kind, flags });
    });
    after(async () => {
      await this.#process?.stop();
    });
  }

  get address(): string {
    return `127.0.0.1:${this.#process!.port}`;
  }

  /** A queue for one test, and a tube that no other uses. */
  readonly open = async (t: TestContext, options: ConnectOptions = {}): Promise<[TextQueue, string]> => {
    const queue = await connect(this.address, options);
    return [queue, this.#prepare(t, queue)];
  };

  /** The same, with a proxy in between. */
  readonly openBehind = async (
    t: TestContext,
    options: ConnectOptions = {},
  ): Promise<[TextQueue, string, BrokenNetwork]> => {
    const proxy = await BrokenNetwork.before(this.#process!);
    t.after(() => proxy.close());
    const queue = await connect(proxy.address, { retryMs: [1, 20], ...options });
    return [queue, this.#prepare(t, queue), proxy];
  };

  /** A test of what beanstalkd does not have: of the file that calls this. */
  get testOurs(): (name: string, run: (t: TestContext) => Promise<void>) => unknown {
    return this.isPlain ? () => {} : it;
  }

  #prepare(t: TestContext, queue: TextQueue): string {
    t.after(() => queue.close());
    const tube = `t${this.#names++}`;
    queue.watch(tube);
    return tube;
  }
}

/** A block for each server that is here; its tests share the server. */
export function describeOnEach(
  what: string,
  options: { readonly concurrency?: true },
  body: (server: ClientServer) => void,
): void {
  for (const { kind, need, flags } of SERVERS)
    describe(`${what} on ${[kind, ...flags].join(" ")}`, { ...options, skip: missing(need) ?? false }, () =>
      body(new ClientServer(kind, flags)),
    );
}

/** A tube disappears when it is empty and unwatched. */
export const statsOf = async (queue: TextQueue, tube: string): Promise<TubeStats | undefined> =>
  await queue
    .tube(tube)
    .stats()
    .catch((error) => (error instanceof NotFound ? undefined : Promise.reject(error)));
export const waits = async (queue: TextQueue, tube: string): Promise<number> =>
  (await statsOf(queue, tube))?.currentWaiting ?? 0;
export const jobsOf = async (
  queue: TextQueue,
  tube: string,
): Promise<{ ready: number; reserved: number; buried: number }> => {
  const stats = await statsOf(queue, tube);
  return {
    ready: stats?.currentJobsReady ?? 0,
    reserved: stats?.currentJobsReserved ?? 0,
    buried: stats?.currentJobsBuried ?? 0,
  };
};
