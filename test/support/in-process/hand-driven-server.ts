// A whole server in one thread, driven by hand until it is idle, with clients that read or don't:
// only the server uses memory, and all of it can be seen.

import assert from "node:assert/strict";
import { AcceptorCore } from "../../../src/acceptor/connection/acceptor-core.ts";
import type { Connection } from "../../../src/acceptor/connection/connection.ts";
import { buffers } from "../../../src/acceptor/stream/output.ts";
import type { Transport } from "../../../src/acceptor/stream/transport.ts";
import { ControlWord, createTopology, httpPort, type Topology } from "../../../src/message/topology.ts";
import { JobIds } from "../../../src/ring/shared-words.ts";
import { ShardCore } from "../../../src/shard/shard-core.ts";

const RING_BYTES = 1 << 20;
const TURNS_MAX = 10_000;

/** A socket whose client reads everything at once, or nothing. */
export class HandDrivenClient implements Transport {
  readonly descriptor = -1;
  pendingBytes = 0;
  /** It throws away what it reads. */
  forgets = false;
  paused = false;
  ended = false;
  readonly #reads: boolean;
  readonly #kept: { readonly buffer: Uint8Array; readonly length: number }[] = [];
  #received: Buffer[] = [];
  connection!: Connection;

  constructor(reads: boolean) {
    this.#reads = reads;
  }

  send(buffer: Uint8Array, length: number): boolean {
    if (this.#reads) {
      if (!this.forgets) this.#received.push(Buffer.from(buffer.subarray(0, length)));
      return true;
    }
    this.#kept.push({ buffer, length });
    this.pendingBytes += length;
    return false;
  }

  pause(): void {
    this.paused = true;
  }

  resume(): void {
    this.paused = false;
  }

  end(): void {
    this.ended = true;
  }

  destroy(): void {
    this.ended = true;
    for (const { buffer } of this.#kept) buffers.give(buffer);
    this.#kept.length = 0;
  }

  /** Reads all that was sent so far, and tells the server so. */
  read(): void {
    for (const { buffer, length } of this.#kept.splice(0)) {
      this.#received.push(Buffer.from(buffer.subarray(0, length)));
      buffers.give(buffer);
    }
    this.pendingBytes = 0;
    this.connection.onDrain();
  }

  /** Takes what it has read. */
  take(): string {
    const text = Buffer.concat(this.#received).toString("latin1");
    this.#received = [];
    return text;
  }

  say(text: string): void {
    const bytes = Buffer.from(text, "latin1");
    this.connection.onBytes(bytes, bytes.length);
  }
}

export class HandDrivenServer {
  readonly acceptor: AcceptorCore;
  readonly topology: Topology;
  /** The port of the http thread, where there is one. */
  readonly http: AcceptorCore | undefined;
  readonly shards: readonly ShardCore[];

  constructor(shards: number, trace?: (line: string) => void, { http = false, ringBytes = RING_BYTES } = {}) {
    const topology = createTopology({
      shards,
      acceptors: 1,
      jobBytesMax: 1 << 20,
      ringBytes,
      http,
    });
    this.topology = topology;
    new JobIds(new Int32Array(topology.control), ControlWord.JobIds).reset(1);
    this.acceptor = new AcceptorCore({
      topology,
      acceptor: 0,
      nowMs: () => 1000,
      statsText: () => `---\n${"statistic: 1\n".repeat(80)}`,
      trace,
    });
    const port = { topology, acceptor: httpPort(topology), nowMs: () => 1000, statsText: () => "" };
    this.http = http ? new AcceptorCore({ ...port, firstSlot: 1, extended: true }) : undefined;
    this.shards = Array.from(
      { length: shards },
      (_, shard) => new ShardCore({ topology, shard, quoteNames: false }),
    );
  }

  connect(reads: boolean): HandDrivenClient {
    const client = new HandDrivenClient(reads);
    client.connection = this.acceptor.connect(client)!;
    return client;
  }

  /** One turn of every thread. Returns whether there is something left to do. */
  turn(): boolean {
    const nobody = (): void => {};
    const acceptors = this.http === undefined ? [this.acceptor] : [this.acceptor, this.http];
    for (const acceptor of acceptors) acceptor.publish(nobody);
    let moved = 0;
    for (const shard of this.shards) {
      moved += shard.step(1000);
      for (const ring of shard.requests) ring.release();
      for (const port of shard.ports) port.ring.publish();
    }
    // Input of clients is read at once.
    const { barriers } = this.acceptor;
    if (barriers.hasWork) barriers.haveRead();
    for (const acceptor of acceptors) {
      moved += acceptor.takeAnswers(nobody);
      acceptor.flush();
      acceptor.publish(() => moved++);
    }
    return (
      moved > 0 ||
      acceptors.some((acceptor) => acceptor.hasWork) ||
      this.shards.some((shard) => shard.hasWork)
    );
  }

  settle(): void {
    for (let turn = 0; turn < TURNS_MAX; turn++) if (!this.turn()) return;
    assert.fail("the server comes to rest");
  }

  disconnect(client: HandDrivenClient): void {
    client.destroy();
    this.acceptor.disconnect(client.connection);
  }
}
