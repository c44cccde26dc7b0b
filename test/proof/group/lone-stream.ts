// JetStream alone, for comparison: publishers that count acknowledgements, on a stream of its own
// on the same log servers, which lives as long as the group.

import { setTimeout as sleep } from "node:timers/promises";
import { type JetStreamManager, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import type { NatsCluster } from "../../support/server/nats-cluster.ts";
import { until } from "../../support/server/server-group.ts";

const PUBLISHERS = 2;
const PAUSE_MS = 10;
const BODY_BYTES = 200;
/** Copies that differ for longer stay so. */
const SAME_MS = 10_000;
const ACK_MS = 2000;
/** A reader that gets nothing for so long has got all that it will get. */
const READ_MS = 5000;
const BATCH_MESSAGES = 500;
/** Any server may answer: one of three is asked at random. */
const ASKED_MAX = 25;
const READS_MAX = 4;

export interface LoneLoss {
  /** In this round. */
  acknowledged: number;
  /** Acknowledged, and a reader of the stream does not get it, but one of the servers has it. */
  hidden: number;
  /** Acknowledged in this round or an earlier one, and now no server has it. */
  lost: number;
  /** That one server has and another does not get. */
  lacking: number;
}

export class LoneStream {
  readonly #cluster: NatsCluster;
  readonly #connection: NatsConnection;
  readonly #manager: JetStreamManager;
  readonly #name: string;
  /** Sequences by number of the message. */
  readonly #acknowledged: Map<string, number> = new Map();
  #isOver = true;
  #publishers: readonly Promise<void>[] = [];
  #numbers = 0;
  #acknowledgedBefore = 0;

  private constructor(
    cluster: NatsCluster,
    connection: NatsConnection,
    manager: JetStreamManager,
    name: string,
  ) {
    this.#cluster = cluster;
    this.#connection = connection;
    this.#manager = manager;
    this.#name = name;
  }

  static async create(cluster: NatsCluster, name: string): Promise<LoneStream> {
    const connection = await connect({
      servers: [...cluster.servers],
      ...{ maxReconnectAttempts: -1, reconnectTimeWait: 100, waitOnFirstConnect: true, noAsyncTraces: true },
      ...{ pingInterval: 1000, maxPingOut: 2, timeout: 2000 },
    });
    const manager = await jetstreamManager(connection, { timeout: ACK_MS, checkAPI: false });
    await until("JetStream makes a stream", async () => {
      await manager.streams.add({
        ...{ name, subjects: [name.toLowerCase()], num_replicas: 3, storage: "file" },
        ...{ max_bytes: 2 ** 27, allow_direct: true },
      });
      return true;
    });
    return new LoneStream(cluster, connection, manager, name);
  }

  start(): void {
    this.#isOver = false;
    this.#acknowledgedBefore = this.#acknowledged.size;
    this.#publishers = Array.from({ length: PUBLISHERS }, () => this.#publish());
  }

  async #publish(): Promise<void> {
    const client = jetstream(this.#connection, { timeout: ACK_MS });
    while (!this.#isOver) {
      const body = `${this.#numbers++}`.padEnd(BODY_BYTES, " ");
      try {
        const { seq } = await client.publish(this.#name.toLowerCase(), body, { timeout: ACK_MS, retries: 0 });
        this.#acknowledged.set(body, seq);
      } catch {
        // Not acknowledged, whatever became of it.
      }
      await sleep(PAUSE_MS);
    }
  }

  /** Stops publishing, and reads it all back, once the servers are well again. */
  async stop(): Promise<LoneLoss> {
    this.#isOver = true;
    await Promise.all(this.#publishers);
    const acknowledged = this.#acknowledged.size - this.#acknowledgedBefore;
    const missing = await this.#unread();
    let lost = 0;
    for (const [body, sequence] of missing) {
      if (await this.#isAnywhere(body, sequence)) continue;
      lost++;
      this.#acknowledged.delete(body);
    }
    return { acknowledged, hidden: missing.length - lost, lost, lacking: await this.#lacking() };
  }

  /** Messages that one server has and another lacks, and goes on lacking. */
  async #lacking(): Promise<number> {
    for (const end = performance.now() + SAME_MS; ; await sleep(100)) {
      const copies = await this.#cluster.copiesOf(this.#name).catch(() => [0]);
      const lacking = Math.max(...copies) - Math.min(...copies);
      if (lacking === 0 || performance.now() > end) return lacking;
    }
  }

  async close(): Promise<void> {
    this.#isOver = true;
    await this.#connection.close();
  }

  /** Acknowledged messages that a reader of the whole stream does not get. */
  async #unread(): Promise<readonly [string, number][]> {
    const read = new Set<string>();
    const missing = (): [string, number][] => [...this.#acknowledged].filter(([body]) => !read.has(body));
    for (let reads = 0; reads < READS_MAX && missing().length > 0; reads++) await this.#readInto(read);
    return missing();
  }

  async #readInto(read: Set<string>): Promise<void> {
    const consumer = await until("JetStream gives a reader", () =>
      jetstream(this.#connection, { timeout: ACK_MS }).consumers.get(this.#name),
    );
    try {
      for (let pending = 1; pending > 0; ) {
        pending = 0;
        const batch = await consumer.fetch({ max_messages: BATCH_MESSAGES, expires: READ_MS });
        for await (const message of batch) {
          read.add(message.string());
          pending = message.info.pending;
          if (pending === 0) break;
        }
      }
    } catch {
      // The next reader sees more, or the same.
    }
  }

  async #isAnywhere(body: string, seq: number): Promise<boolean> {
    for (let asked = 0; asked < ASKED_MAX; asked++) {
      const found = await this.#manager.direct.getMessage(this.#name, { seq }).catch(() => null);
      if (found?.string() === body) return true;
      await sleep(PAUSE_MS);
    }
    return false;
  }
}
