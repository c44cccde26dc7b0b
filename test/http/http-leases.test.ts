// Exact tests of leases: HTTP clients and protocol clients on the same tubes, on virtual time,
// against a ledger of holders. Shards, acceptor and the http thread's port are real; threads and
// clocks are not.
//
// SEEDS=1000 npm test -- http-leases

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AcceptorCore } from "../../src/acceptor/connection/acceptor-core.ts";
import { asciiBytes, shardOfTube } from "../../src/base/bytes.ts";
import { ControlClient } from "../../src/http/link/control-client.ts";
import { PutPool } from "../../src/http/link/put-pool.ts";
import { WireClients, WireConnection } from "../../src/http/link/wire-connection.ts";
import { Reservations, type ReservedJob } from "../../src/http/queue/reservations.ts";
import type { LeaseChange } from "../../src/message/control.ts";
import { ControlWord, createTopology, httpPort } from "../../src/message/topology.ts";
import { JobIds } from "../../src/ring/job-ids.ts";
import { ShardCore } from "../../src/shard/shard-core.ts";
import { drawnSeed, SeededRandom } from "../support/seeded-random.ts";

const { SEED, SEEDS = "12" } = process.env;
const STEPS = 150;
const TUBES = ["a", "b", "c"];
/** A reservation is over after its deadline, not at it. */
const AFTER_MS = 1;

/** A server in one process, which turns until an awaited answer arrives. */
class Server {
  nowMs = 1000;
  readonly #cores: AcceptorCore[];
  readonly #shards: ShardCore[];
  readonly control: ControlClient;
  readonly wire: WireClients;

  constructor(shards: number) {
    const topology = createTopology({
      shards,
      acceptors: 1,
      http: true,
      jobBytesMax: 65535,
      ringBytes: 1 << 17,
    });
    new JobIds(new Int32Array(topology.control), ControlWord.JobIds).reset(1);
    const core = (acceptor: number, more: object): AcceptorCore =>
      new AcceptorCore({ topology, acceptor, nowMs: () => this.nowMs, statsText: () => "", ...more });
    this.#cores = [core(0, {}), core(httpPort(topology), { firstSlot: 1, extended: true })];
    this.#shards = Array.from(
      { length: shards },
      (_, shard) => new ShardCore({ topology, shard, quoteNames: false, clock: () => this.nowMs }),
    );
    this.control = new ControlClient(this.#cores[1]!, () => {});
    this.wire = new WireClients(this.#cores[1]!, () => {});
  }

  /** A client of the protocol. */
  connect(): WireConnection {
    return new WireConnection(this.#cores[0]!, () => {});
  }

  turn(): void {
    const nobody = (): void => {};
    for (const core of this.#cores) core.publish(nobody);
    for (const shard of this.#shards) {
      shard.step(this.nowMs);
      for (const requests of shard.requests) requests.release();
      for (const port of shard.ports) port.publish(0);
    }
    for (const core of this.#cores) {
      if (core.barriers.hasWork) core.barriers.haveRead();
      core.takeAnswers(nobody);
      core.flush();
      core.publish(nobody);
    }
  }

  /** Takes turns until the promise is settled. */
  async until<Value>(promise: Promise<Value>): Promise<Value> {
    let isSettled = false;
    const settled = (): void => {
      isSettled = true;
    };
    promise.then(settled, settled);
    for (let turns = 0; !isSettled; turns++) {
      assert.ok(turns < 5000, "an answer comes");
      this.turn();
      await new Promise((resolve) => setImmediate(resolve));
    }
    return promise;
  }

  async settle(): Promise<void> {
    for (let turns = 0; turns < 8; turns++) {
      this.turn();
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
}

interface Held {
  readonly by: string;
  readonly reserves: number;
  untilMs: number;
}

/** A lease that was given out at some time. */
interface Lease {
  readonly id: number;
  readonly shard: number;
  readonly reserves: number;
  readonly ttr: number;
}

class Run {
  readonly #random: SeededRandom;
  readonly #server: Server;
  readonly #shards: number;
  readonly #puts: PutPool;
  readonly #reservations: Reservations;
  readonly #clients: WireConnection[];
  readonly #held = new Map<number, Held>();
  readonly #alive = new Set<number>();
  readonly #reserves = new Map<number, number>();
  readonly #leases: Lease[] = [];
  readonly #ttr = new Map<number, number>();
  /** Requests that wait: their end is looked at when it comes. */
  readonly #waits: { readonly abort: AbortController; isOver: boolean; jobs: ReservedJob[] }[] = [];
  acts = 0;
  refusals = 0;

  constructor(seed: number) {
    this.#random = new SeededRandom(seed);
    this.#shards = [1, 4, 7][this.#random.below(3)]!;
    this.#server = new Server(this.#shards);
    this.#puts = new PutPool(this.#server.wire, this.#shards);
    this.#reservations = new Reservations(this.#server.wire);
    this.#clients = [this.#server.connect(), this.#server.connect()];
  }

  async run(): Promise<void> {
    for (const client of this.#clients)
      for (const tube of TUBES) await this.#server.until(client.command(`watch ${tube}`));
    const acts = [
      () => this.#put(),
      () => this.#put(),
      () => this.#reserveHttp(),
      () => this.#reserveHttp(),
      () => this.#reserveWire(),
      () => this.#change(),
      () => this.#change(),
      () => this.#giveBack(),
      () => this.#wireAct(),
      () => this.#beginWait(),
      () => this.#abortWait(),
      () => this.#pass(),
    ];
    for (let step = 0; step < STEPS; step++) {
      await acts[this.#random.below(acts.length)]!();
      await this.#server.settle();
      this.#takeWaits();
    }
    await this.#end();
  }

  #shardOf(tube: string): number {
    const bytes = asciiBytes(tube);
    return shardOfTube(bytes, 0, bytes.length, this.#shards);
  }

  #tube(): string {
    return TUBES[this.#random.below(TUBES.length)]!;
  }

  async #put(): Promise<void> {
    const ttr = 1 + this.#random.below(3);
    const put = { tube: this.#tube(), pri: this.#random.below(3), delay: 0, ttr };
    const outcome = await this.#server.until(this.#puts.put(put, Buffer.from("x")));
    assert.ok("id" in outcome);
    this.#alive.add(outcome.id);
    this.#ttr.set(outcome.id, ttr);
  }

  /** A job was given out: no other client may hold it. */
  #given(id: number, by: string, reserves: number): void {
    const before = this.#held.get(id);
    assert.ok(this.#alive.has(id), `job ${id} that ${by} gets was put and not deleted`);
    assert.ok(
      before === undefined || this.#server.nowMs > before.untilMs,
      `job ${id} is given to ${by} while ${before?.by} holds it until ${before?.untilMs}`,
    );
    assert.ok(reserves > (this.#reserves.get(id) ?? 0), `job ${id} is reserved once more`);
    this.#reserves.set(id, reserves);
    this.#held.set(id, { by, reserves, untilMs: this.#server.nowMs + this.#ttr.get(id)! * 1000 });
  }

  #leased(jobs: readonly ReservedJob[]): void {
    for (const { id, reserves, tube, ttr } of jobs) {
      this.#given(id, "HTTP", reserves);
      this.#leases.push({ id, shard: this.#shardOf(tube), reserves, ttr });
    }
  }

  async #reserveHttp(): Promise<void> {
    const { signal } = new AbortController();
    const tubes = TUBES.filter(() => this.#random.below(2) === 0);
    const asked = {
      tubes: tubes.length === 0 ? ["a"] : tubes,
      waitSeconds: 0,
      max: 1 + this.#random.below(3),
    };
    const jobs: ReservedJob[] = [];
    const taking = { worker: "w", bytesMax: 1e6, room: () => Number.POSITIVE_INFINITY, signal };
    await this.#server.until(
      this.#reservations.reserve({ ...asked, ...taking, onJob: (job) => jobs.push(job) }),
    );
    this.#leased(jobs);
  }

  async #reserveWire(): Promise<void> {
    const index = this.#random.below(this.#clients.length);
    const { line } = await this.#server.until(this.#clients[index]!.command("reserve-with-timeout 0"));
    if (!line.startsWith("RESERVED")) return;
    const id = Number(line.split(" ")[1]);
    this.#given(id, `client ${index}`, (this.#reserves.get(id) ?? 0) + 1);
  }

  /**
   * A lease that is or was given out asks for something: done exactly if it still holds the job.
   */
  async #change(): Promise<void> {
    const lease = this.#leases[this.#random.below(this.#leases.length)];
    if (lease === undefined) return;
    const act = (["delete", "release", "bury", "touch"] as const)[this.#random.below(4)]!;
    const change: LeaseChange = { act, id: lease.id, reserves: lease.reserves };
    const [isDone] = await this.#server.until(
      this.#server.control.ask(lease.shard, "leases", { changes: [change] }),
    );
    const held = this.#held.get(lease.id);
    const holds = held?.by === "HTTP" && held.reserves === lease.reserves;
    this.acts++;
    if (!isDone) {
      this.refusals++;
      assert.ok(
        !holds || this.#server.nowMs >= held.untilMs,
        `a lease of job ${lease.id} is refused while it holds`,
      );
      return;
    }
    assert.ok(
      holds && this.#server.nowMs <= held.untilMs + AFTER_MS,
      `a lease of job ${lease.id} acts after its end`,
    );
    if (act === "touch") held.untilMs = this.#server.nowMs + lease.ttr * 1000;
    else this.#held.delete(lease.id);
    if (act === "delete") this.#alive.delete(lease.id);
  }

  async #giveBack(): Promise<void> {
    const lease = this.#leases[this.#random.below(this.#leases.length)];
    if (lease === undefined) return;
    const { id, shard, reserves } = lease;
    const given = await this.#server.until(
      this.#server.control.ask(shard, "give-back", { jobs: [{ id, reserves }] }),
    );
    const held = this.#held.get(id);
    if (given === 1) {
      assert.ok(held?.by === "HTTP" && held.reserves === reserves, `job ${id} goes back from its holder`);
      this.#held.delete(id);
    }
  }

  async #wireAct(): Promise<void> {
    const index = this.#random.below(this.#clients.length);
    const ids = [...this.#alive];
    const id = ids[this.#random.below(ids.length)];
    if (id === undefined) return;
    const act = ["delete", "release", "touch", "bury", "kick-job"][this.#random.below(5)]!;
    const more = act === "release" ? " 0 0" : act === "bury" ? " 0" : "";
    const { line } = await this.#server.until(this.#clients[index]!.command(`${act} ${id}${more}`));
    const held = this.#held.get(id);
    const isHeld = held !== undefined && this.#server.nowMs <= held.untilMs;
    if (line === "NOT_FOUND") return;
    if (isHeld && this.#server.nowMs < held.untilMs)
      assert.equal(held.by, `client ${index}`, `${act} of job ${id} is done by another than its holder`);
    if (line === "TOUCHED") held!.untilMs = this.#server.nowMs + this.#ttr.get(id)! * 1000;
    else if (line !== "KICKED") this.#held.delete(id);
    if (line === "DELETED") this.#alive.delete(id);
  }

  async #beginWait(): Promise<void> {
    const abort = new AbortController();
    const wait = { abort, isOver: false, jobs: [] as ReservedJob[] };
    const tubes = [this.#tube(), this.#tube()];
    this.#reservations
      .reserve({
        ...{ worker: "w", tubes, waitSeconds: 5, max: 1, bytesMax: 1e6, room: () => 1, signal: abort.signal },
        onJob: (job) => wait.jobs.push(job),
      })
      .then(() => {
        wait.isOver = true;
      });
    this.#waits.push(wait);
    await this.#server.settle();
  }

  /** Its client goes: what comes nevertheless goes back, as the route does it. */
  async #abortWait(): Promise<void> {
    const wait = this.#waits[this.#random.below(this.#waits.length)];
    wait?.abort.abort();
    await this.#server.settle();
  }

  #takeWaits(): void {
    for (const wait of this.#waits.splice(0)) {
      if (wait.isOver) this.#leased(wait.jobs);
      else this.#waits.push(wait);
    }
  }

  async #pass(): Promise<void> {
    this.#server.nowMs += this.#random.below(2000);
  }

  /** No job is lost: after all reservations have ended, each exists and is unreserved. */
  async #end(): Promise<void> {
    for (const { abort } of this.#waits) abort.abort();
    for (let turns = 0; turns < 10; turns++) await this.#server.settle();
    this.#takeWaits();
    assert.equal(this.#waits.length, 0, "a wait whose client is gone ends");
    this.#server.nowMs += 10_000;
    for (const id of this.#alive) {
      const { line, body } = await this.#server.until(this.#clients[0]!.command(`stats-job ${id}`));
      assert.match(line, /^OK/, `job ${id} exists`);
      assert.match(body!.toString(), /state: (ready|buried)/, `job ${id} is unreserved`);
    }
    this.#reservations.stop();
  }
}

describe("leases", () => {
  it("lose no job, hold none twice, and have no effect after their end", async (t) => {
    const first = SEED === undefined ? drawnSeed() : Number(SEED);
    t.diagnostic(`again: SEED=${first} SEEDS=${SEEDS} npm test -- http-leases`);
    let acts = 0;
    let refusals = 0;
    for (let seed = first; seed < first + Number(SEEDS); seed++) {
      const run = new Run(seed);
      try {
        await run.run();
      } catch (error) {
        throw new Error(`seed ${seed}: SEED=${seed} SEEDS=1 npm test -- http-leases`, { cause: error });
      }
      acts += run.acts;
      refusals += run.refusals;
    }
    assert.ok(
      acts > 0 && refusals > 0 && refusals < acts,
      `${acts} acts of leases, ${refusals} of them too late`,
    );
  });
});
