// Simulation of HTTP and protocol clients on the same tubes, with the loops of the whole server on
// a random schedule and virtual time: no job is lost, done twice or held by two clients, and no
// lease acts after its end.
//
// Everything behind the routes is real: puts, waits, leases, questions to shards. Only the requests
// are simulated; some are cancelled while they wait, and some responses get lost.

import assert from "node:assert/strict";
import { setImmediate as nextTurn } from "node:timers/promises";
import { JobState, NO_SLOT, rowOf } from "../../src/engine/jobs/job-table.ts";
import { ControlClient } from "../../src/http/link/control-client.ts";
import { PutPool } from "../../src/http/link/put-pool.ts";
import { WireClients } from "../../src/http/link/wire-connection.ts";
import { changeLeases, GiveBacks } from "../../src/http/queue/lease-changes.ts";
import { Handout, Reservations } from "../../src/http/queue/reservations.ts";
import { type Lease, LeaseTable } from "../../src/http/state/lease-table.ts";
import { JobCounter } from "../../src/schema/job.ts";
import { checkRings } from "../support/in-process/ring-invariants.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import type { FakeSocket } from "./server/fake-socket.ts";
import { InProcessServer } from "./server/in-process-server.ts";

const TUBES = ["default", "a", "b", "c"] as const;
const SOCKETS = 3;
const REQUESTS_MAX = 12;
const TTR_MAX_SECONDS = 3;
/** TTR of jobs that stay forgotten until the end, s. */
const TTR_LONG_SECONDS = 3600;
/** Until all that was sent is answered. */
const ROUNDS_MAX = 2000;

interface HttpSimulationResult {
  readonly puts: number;
  readonly deletes: number;
  readonly leases: number;
  /** Changes that were refused, since the lease had ended. */
  readonly ended: number;
  readonly abandoned: number;
}

/** A client got a job, and holds it until it ends the lease or the ttr is over. */
interface Grant {
  readonly who: string;
  /**
   * It can't end by itself before: its time begins when its reserve was sent, or later. 0 once its
   * holder has let go.
   */
  untilMs: number;
  /** Place in the order of events at which it was heard of. */
  readonly place: number;
}

/** Reply that a client of beanstalkd's protocol waits for. */
interface Asked {
  readonly kind: "put" | "reserve" | "delete" | "release" | "touch";
  readonly id?: number;
  readonly ttr?: number;
  readonly sentAtMs: number;
  readonly place: number;
}

interface Client {
  readonly name: string;
  socket: FakeSocket;
  asked: Asked | undefined;
  readonly held: Map<number, number>;
  input: string;
}

export interface HttpSimulationOptions {
  readonly seed: number;
  readonly steps: number;
  /** Breaks something, for the canary. */
  readonly plant?: (parts: { control: ControlClient; server: InProcessServer }) => void;
}

export async function simulateHttp(options: HttpSimulationOptions): Promise<HttpSimulationResult> {
  const simulation = new HttpSimulation(options);
  let step = 0;
  try {
    for (; step < options.steps; step++) await simulation.step();
    return await simulation.finish();
  } catch (error) {
    const what = (error as Error).message;
    throw new Error(`seed ${options.seed}, step ${step} of ${options.steps}, ${simulation.shape}: ${what}`, {
      cause: error,
    });
  } finally {
    simulation.end();
  }
}

class HttpSimulation {
  readonly shape: string;
  readonly #random: SeededRandom;
  readonly #server: InProcessServer;
  readonly #control: ControlClient;
  readonly #puts: PutPool;
  readonly #reservations: Reservations;
  readonly #leases: LeaseTable;
  readonly #giveBacks: GiveBacks;
  readonly #clients: Client[];
  /** Requests over HTTP that are under way. */
  readonly #requests = new Set<Promise<void>>();
  readonly #waits = new Set<Handout>();
  /** Leases that a worker over HTTP has been given, also such that have ended since. */
  #known: Lease[] = [];
  readonly #grants = new Map<number, Grant>();
  readonly #put = new Set<number>();
  /** By id: when it was heard of. */
  readonly #deleted = new Map<number, number>();
  #failure: Error | undefined;
  #given = 0;
  #places = 0;

  constructor({ seed, plant }: HttpSimulationOptions) {
    const random = new SeededRandom(seed);
    this.#random = random;
    const shards = random.pick([1, 2, 4, 7]);
    const acceptors = random.pick([1, 2]);
    this.shape = `${shards} shards, ${acceptors} acceptors`;
    const server = new InProcessServer({
      ...{ shards, acceptors, random, http: true },
      ringBytes: random.pick([4096, 8192]),
      holdUps: random.pick([0, 0.1, 0.5]),
      pollChance: random.pick([0, 0.5]),
      lateRings: random.pick([0, 0.2]),
      strayRings: random.chance(0.2),
      placement: random.pick(["apart", "together"]),
      tickMs: random.pick([0, 0.01, 1]),
    });
    this.#server = server;
    const { core } = server.http!;
    const wake = (): void => server.http!.wake();
    const wire = new WireClients(core, wake);
    this.#control = new ControlClient(core, wake);
    this.#puts = new PutPool(wire, shards);
    this.#reservations = new Reservations(wire);
    this.#leases = new LeaseTable(() => server.nowMs);
    this.#giveBacks = new GiveBacks(this.#leases, this.#control);
    this.#clients = Array.from({ length: SOCKETS }, (_, index) => this.#newClient(`client ${index}`));
    plant?.({ control: this.#control, server });
  }

  async step(): Promise<void> {
    const random = this.#random;
    const act = random.weighted({
      ...{ run: 10, "http-put": 3, "http-reserve": 3, "http-change": 4, "give-up": 1 },
      ...{ client: 6, vanish: 0.3, time: 1.5 },
    });
    if (act === "http-put") this.#begin(() => this.#httpPut());
    else if (act === "http-reserve") this.#begin(() => this.#httpReserve());
    else if (act === "http-change") this.#begin(() => this.#httpChange());
    else if (act === "give-up") random.pick([...this.#waits])?.drop();
    else if (act === "client") this.#clientAct(random.pick(this.#clients)!);
    else if (act === "vanish") this.#vanish(random.pick(this.#clients)!);
    else if (act === "time") this.#server.takeTime(random.between(1, 1500));
    await this.#run(random.between(1, 25));
    checkRings(this.#server.topology);
  }

  /** Runs threads, and lets requests go on that have their answers. */
  async #run(steps: number): Promise<void> {
    for (let left = steps; left > 0 && this.#server.step(); left--);
    await nextTurn();
    for (const client of this.#clients) this.#read(client);
    if (this.#failure !== undefined) throw this.#failure;
  }

  // --- over HTTP ---------------------------------------------------------------------------------

  #begin(request: () => Promise<void>): void {
    if (this.#requests.size >= REQUESTS_MAX) return;
    const done: Promise<void> = request()
      .catch((error: unknown) => {
        this.#failure ??= error as Error;
      })
      .finally(() => this.#requests.delete(done));
    this.#requests.add(done);
  }

  async #httpPut(): Promise<void> {
    const random = this.#random;
    const tube = random.pick(TUBES)!;
    const count = random.pick([1, 1, 5]);
    const jobs = Array.from({ length: count }, () => ({
      put: { tube, pri: random.between(0, 3), delay: random.pick([0, 0, 1]), ttr: this.#drawTtr() },
      body: Buffer.alloc(random.pick([0, 3, 900]), "h"),
    }));
    for (const outcome of await this.#puts.putMany(jobs)) {
      assert.ok("id" in outcome, "a put over HTTP is refused");
      this.#isNew(outcome.id);
    }
  }

  async #httpReserve(): Promise<void> {
    const random = this.#random;
    const tubes = TUBES.filter(() => random.chance(0.5));
    const handout = new Handout(this.#handoutParts, { owner: "worker", address: "" });
    const sentAtMs = this.#server.nowMs;
    const place = ++this.#places;
    this.#waits.add(handout);
    await this.#reservations.reserve({
      worker: handout.worker,
      tubes: tubes.length === 0 ? ["a"] : tubes,
      waitSeconds: random.pick([0, 1, 5]),
      max: random.pick([1, 4, 100]),
      bytesMax: random.pick([1, 3000, 100_000]),
      room: () => this.#leases.room,
      signal: handout.signal,
      onJob: (job) => handout.add(job),
    });
    this.#waits.delete(handout);
    // Its connection breaks before it has got the answer.
    if (random.chance(0.15)) handout.drop();
    for (const { job, lease } of handout.handed) {
      this.#isGiven(lease.id, lease.token, sentAtMs + job.ttr * 1000, place);
      this.#known.push(lease);
      this.#given++;
    }
  }

  async #httpChange(): Promise<void> {
    const random = this.#random;
    const lease = random.pick(this.#known);
    if (lease === undefined) return;
    const act = random.pick(["delete", "delete", "release", "touch", "bury"] as const);
    const hasEnded = !this.#stands(lease);
    const repeats =
      this.#leases.finishedBy(lease) === act || this.#leases.whenFinishedBy(lease, act) !== undefined;
    const grant = this.#grants.get(lease.id);
    // It may end by this from now on.
    if (act !== "touch" && grant?.who === lease.token) grant.untilMs = 0;
    const sentAtMs = this.#server.nowMs;
    const [done] = await changeLeases(this.#ways, "worker", [{ act, token: lease.token }]);
    // If it holds the job now, it has held it all the time.
    assert.ok(done || !this.#stands(lease), `a lease of job ${lease.id} holds it, and may not ${act} it`);
    if (!done) return;
    assert.ok(!hasEnded || repeats, `a lease of job ${lease.id} has ended, and does ${act} all the same`);
    if (repeats) return;
    if (act === "touch") this.#leases.renew(lease.token, "worker");
    if (act === "touch" && grant?.who === lease.token && grant.untilMs > 0)
      grant.untilMs = sentAtMs + lease.ttr * 1000;
    if (act === "delete") this.#isDeleted(lease.id);
    if (act === "bury") this.#begin(() => this.#kick(lease));
  }

  /** Buried jobs would be out of the game. */
  async #kick({ shard, id }: Lease): Promise<void> {
    await this.#control.ask(shard, "job-act", { id, act: "kick", force: false });
  }

  /** Returns whether the job is still held by this lease, as its engine knows at this moment. */
  #stands({ id, shard, reserves }: Lease): boolean {
    const { engine, leaseSession } = this.#server.shards[shard]!;
    const slot = engine.find(id);
    if (slot === NO_SLOT) return false;
    const page = engine.jobs.pageOf(slot);
    const row = rowOf(slot);
    const isHeld = page.state[row] === JobState.Reserved && page.holder[row] === leaseSession;
    return isHeld && page.count(row, JobCounter.reserves) === reserves;
  }

  get #ways(): { leases: LeaseTable; control: ControlClient } {
    return { leases: this.#leases, control: this.#control };
  }

  get #handoutParts(): ConstructorParameters<typeof Handout>[0] {
    return { ...this.#ways, giveBacks: this.#giveBacks, nowMs: () => this.#server.nowMs };
  }

  // --- over sockets ------------------------------------------------------------------------------

  #newClient(name: string): Client {
    const socket = this.#server.connect();
    const tubes = TUBES.filter(() => this.#random.chance(0.6));
    for (const tube of tubes) socket.write(Buffer.from(`watch ${tube}\r\n`));
    return { name, socket, asked: undefined, held: new Map(), input: "" };
  }

  /** Its connection is cut: what it holds goes back. */
  #vanish(client: Client): void {
    client.socket.close();
    for (const id of client.held.keys()) this.#end(id, client.name);
    // Jobs on their way to it go back, too, or were finished unnoticed.
    if (client.asked?.kind === "put" || client.asked?.kind === "delete") this.#unknown = true;
    const at = this.#clients.indexOf(client);
    this.#clients[at] = this.#newClient(`${client.name}'`);
  }

  /** A put or a delete was cut off: counts at the end have that much play. */
  #unknown = false;

  #clientAct(client: Client): void {
    if (client.asked !== undefined) return;
    const random = this.#random;
    const sent = { sentAtMs: this.#server.nowMs, place: ++this.#places };
    const [id] = random.pick([...client.held]) ?? [];
    const kind =
      id === undefined
        ? random.pick(["put", "reserve"] as const)
        : random.pick(["delete", "release", "touch", "reserve"] as const);
    if (kind === "put") {
      const ttr = this.#drawTtr();
      client.socket.write(
        Buffer.from(`use ${random.pick(TUBES)}\r\nput ${random.between(0, 3)} 0 ${ttr} 2\r\nxx\r\n`),
      );
      client.asked = { kind, ttr, ...sent };
      return;
    }
    const line =
      kind === "reserve"
        ? `reserve-with-timeout ${random.pick([0, 1])}`
        : `${kind} ${id}${kind === "release" ? " 0 0" : ""}`;
    client.socket.write(Buffer.from(`${line}\r\n`));
    client.asked = { kind, ...sent, ...(id === undefined || kind === "reserve" ? {} : { id }) };
    if (kind === "delete" || kind === "release") this.#end(id!, client.name);
  }

  #read(client: Client): void {
    client.socket.readAll();
    client.input += client.socket.takeReceived().toString("latin1");
    for (;;) {
      const end = client.input.indexOf("\r\n");
      if (end < 0) return;
      const [word = "", first = "", bytes = ""] = client.input.slice(0, end).split(" ");
      const length = word === "RESERVED" ? Number(bytes) + 2 : 0;
      if (client.input.length < end + 2 + length) return;
      client.input = client.input.slice(end + 2 + length);
      if (word !== "WATCHING" && word !== "USING") this.#onReply(client, word, Number(first));
    }
  }

  #onReply(client: Client, word: string, number: number): void {
    const { asked } = client;
    assert.ok(asked !== undefined, `${client.name} is told ${word}, and has asked nothing`);
    client.asked = undefined;
    if (word === "INSERTED") this.#isNew(number);
    else if (word === "RESERVED") {
      // Its time to run is that of its put, which may be another client's: the shortest is sure.
      this.#isGiven(number, client.name, asked.sentAtMs + 1000, asked.place);
      client.held.set(number, asked.sentAtMs);
    } else if (asked.kind === "delete" && word === "DELETED") {
      client.held.delete(asked.id!);
      this.#isDeleted(asked.id!);
    } else if (asked.id !== undefined && word !== "TOUCHED") client.held.delete(asked.id);
  }

  // --- the ledger --------------------------------------------------------------------------------

  #drawTtr(): number {
    return this.#random.chance(0.2) ? TTR_LONG_SECONDS : this.#random.between(1, TTR_MAX_SECONDS);
  }

  #isNew(id: number): void {
    assert.ok(!this.#put.has(id), `job ${id} is put twice`);
    this.#put.add(id);
  }

  /** A job that was asked for earlier may have been given before the other. */
  #isGiven(id: number, who: string, untilMs: number, askedAt: number): void {
    const before = this.#grants.get(id);
    const deleted = this.#deleted.get(id) ?? Number.POSITIVE_INFINITY;
    assert.ok(askedAt < deleted, `job ${id} is given to ${who}, and was deleted`);
    assert.ok(
      before === undefined || askedAt < before.place || this.#server.nowMs >= before.untilMs,
      `job ${id} is given to ${who}, and ${before?.who} has it`,
    );
    this.#grants.set(id, { who, untilMs, place: ++this.#places });
  }

  /** It may go back from now on. */
  #end(id: number, who: string): void {
    const grant = this.#grants.get(id);
    if (grant?.who === who) grant.untilMs = 0;
  }

  #isDeleted(id: number): void {
    assert.ok(!this.#deleted.has(id), `job ${id} is deleted twice`);
    this.#deleted.set(id, ++this.#places);
    this.#grants.delete(id);
  }

  // --- the end -----------------------------------------------------------------------------------

  /** All waits end, all is answered; what was put and not deleted is there. */
  async finish(): Promise<HttpSimulationResult> {
    for (
      let round = 0;
      this.#requests.size > 0 || this.#clients.some(({ asked }) => asked !== undefined);
      round++
    ) {
      assert.ok(round < ROUNDS_MAX, "every request is answered in the end");
      await this.#run(1000);
      if (!this.#server.step()) this.#server.takeTime(500);
    }
    // Returned jobs are ready again before the count.
    for (let round = 0; round < 5; round++) await this.#run(1000);
    const live = new Set<number>();
    for (const { engine } of this.#server.shards)
      for (const id of this.#put) if (engine.find(id) !== NO_SLOT) live.add(id);
    for (const id of this.#deleted.keys()) assert.ok(!live.has(id), `job ${id} was deleted, but exists`);
    const lost = [...this.#put].filter((id) => !live.has(id) && !this.#deleted.has(id));
    if (!this.#unknown) assert.deepEqual(lost, [], "jobs are lost");
    this.#checkLeases();
    return {
      puts: this.#put.size,
      deletes: this.#deleted.size,
      leases: this.#given,
      ended: this.#leases.ended,
      abandoned: this.#leases.abandoned,
    };
  }

  /**
   * Each leased job is in the list of leases, and some worker has its lease: no other could finish
   * it.
   */
  #checkLeases(): void {
    const listed = new Set(this.#leases.list().map(({ id, reserves }) => `${id} ${reserves}`));
    const known = new Set(this.#known.map(({ id, reserves }) => `${id} ${reserves}`));
    for (const { engine, leaseSession } of this.#server.shards)
      for (const id of this.#put) {
        const slot = engine.find(id);
        if (slot === NO_SLOT) continue;
        const page = engine.jobs.pageOf(slot);
        const row = rowOf(slot);
        if (page.state[row] !== JobState.Reserved || page.holder[row] !== leaseSession) continue;
        const lease = `${id} ${page.count(row, JobCounter.reserves)}`;
        assert.ok(known.has(lease), `job ${id} is leased, and a client has its lease`);
        assert.ok(listed.has(lease), `job ${id} is leased, and not in the list of leases`);
      }
  }

  end(): void {
    this.#reservations.stop();
  }
}
