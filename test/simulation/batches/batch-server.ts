// The server of a simulation of batches: its processes one after another, on one disk, and its
// clients.

import assert from "node:assert/strict";
import { LENT_IDS } from "../../../src/binlog/live/log-writer.ts";
import { openBinlog } from "../../../src/binlog/open-binlog.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { FileTable, LogWord } from "../../../src/ring/shared-words.ts";
import { VirtualDisk } from "../../binlog/virtual-disk.ts";
import { SeededRandom } from "../../support/seeded-random.ts";
import { InProcessServer } from "../server/in-process-server.ts";
import { checkBatches } from "./batch-checks.ts";
import { BatchClient } from "./batch-client.ts";
import { CancelledHops } from "./cancelled-hops.ts";

export interface BatchSimulationOptions {
  readonly seed: number;
  readonly steps: number;
  readonly plant?: (server: InProcessServer) => void;
  /** Shards of each process; drawn if it is left out. */
  readonly shards?: number;
  /** Cancels batches often, while workers hand their members on to other tubes. */
  readonly hops?: boolean;
}

const SEGMENT_BYTES = 128 * 1024;
const CLIENTS = 4;

export class BatchServer {
  readonly lastActs: string[] = [];
  protected readonly options: BatchSimulationOptions;
  protected readonly random: SeededRandom;
  protected server!: InProcessServer;
  protected clients: BatchClient[] = [];
  protected restarts = 0;
  readonly #tubes: readonly string[];
  readonly #disk = new VirtualDisk();
  #wallMs = 1_700_000_000_000;
  #startedAtMs = 0;

  /** Clients watch these tubes. */
  constructor(options: BatchSimulationOptions, tubes: readonly string[]) {
    this.options = options;
    this.random = new SeededRandom(options.seed);
    this.#tubes = tubes;
  }

  protected get engines(): Engine[] {
    return this.server.shards.map(({ engine }) => engine);
  }

  protected say(what: string): void {
    this.lastActs.push(what);
  }

  // --- processes ---------------------------------------------------------------------------------

  protected async start(): Promise<void> {
    const random = this.random;
    const shards = this.options.shards ?? random.pick([1, 2, 3, 4, 7]);
    const startsAtMs = random.between(1, 1_000_000);
    this.#wallMs += random.between(0, 3000);
    this.#startedAtMs = startsAtMs;
    const opened = await openBinlog({
      disk: this.#disk,
      shards,
      segmentBytes: SEGMENT_BYTES,
      syncEvery: 0,
      salvage: false,
      parallel: false,
      smallSegments: true,
      lentIds: random.pick([4, 64, LENT_IDS]),
      randomSalt: () => random.bits(),
      wallMs: () => this.#wallMs,
      clockMs: () => this.server?.nowMs ?? startsAtMs,
      notice: () => {},
      progress: () => {},
      files: {
        set: (id, segment) => {
          const files = this.server?.topology.binlog?.files;
          if (files !== undefined) new FileTable(files).set(id, segment);
        },
      },
    });
    const server = new InProcessServer({
      shards,
      acceptors: random.pick([1, 2, 3]),
      random,
      holdUps: random.pick([0, 0.05, 0.3]),
      lateRings: random.pick([0, 0.2]),
      strayRings: random.chance(0.2),
      slowLog: random.pick([0, 0.8, 0.95]),
      tickMs: random.pick([0, 0.05]),
      placement: random.pick(["together", "apart"]),
      startsAtMs,
      log: {
        disk: this.#disk,
        opened,
        repliesWaitFor: LogWord.Synced,
        recordRingBytes: 4096,
        wallOffsetMs: this.#wallMs - startsAtMs,
      },
    });
    this.server = server;
    this.options.plant?.(server);
    new CancelledHops(server);
    server.restore();
    checkBatches(this.engines);
    this.clients = Array.from({ length: CLIENTS }, () => new BatchClient(server.connect()));
    this.say(`a process with ${shards} shards`);
  }

  protected async restart(): Promise<void> {
    this.takeReplies();
    this.server.halt();
    this.#wallMs += Math.floor(this.server.nowMs - this.#startedAtMs);
    if (this.random.chance(0.5)) this.#disk.kill();
    else this.#disk.crash(this.random);
    this.restarts++;
    this.say("the process ends");
    await this.start();
    for (const client of this.clients) this.watch(client);
  }

  /** Sends a request that is answered before anything else happens. */
  protected must(request: string, expected: RegExp): string {
    const client = this.clients[0]!;
    let text = "";
    client.ask(request, ({ line, body }) => {
      assert.match(line, expected, request);
      text = body;
    });
    this.settle();
    assert.ok(client.isIdle, `${request} is answered`);
    return text;
  }

  protected settle(): void {
    this.server.settle();
    this.takeReplies();
    checkBatches(this.engines);
  }

  protected takeReplies(): void {
    for (const client of this.clients) client.take();
  }

  /** Watches all tubes, in one go; only the last reply is looked at. */
  protected watch(client: BatchClient): void {
    for (const tube of this.#tubes) {
      client.ask(`watch ${tube}`, ({ line }) => assert.match(line, /^WATCHING/));
      this.settle();
    }
    client.isWatching = true;
  }
}
