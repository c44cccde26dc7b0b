// Several clients that set, move, pause, run and delete the same few schedules at the same time, on
// the whole server in one process, with ends of the process at random moments. Some order of the
// commands must explain all answers and what is there at rest, and no tick may come twice.

import assert from "node:assert/strict";
import { latin1 } from "../../../src/base/bytes.ts";
import { Outcome } from "../../../src/engine/jobs/ends.ts";
import { tubeOn } from "../../support/tube-on.ts";
import { BatchClient, type BatchReply } from "../batches/batch-client.ts";
import { BatchServer, type BatchSimulationOptions } from "../batches/batch-server.ts";
import { type ActKind, type NamedSchedule, NameHistory, reportOf } from "./name-history.ts";

const NAMES = ["a", "b"] as const;
const TIMINGS = ["every=1", "every=2.5", "cron=*_*_*_*_*_*", "cron=0_0_1_1_*"] as const;
/** How often each is drawn. */
const ACTS: Readonly<Record<ActKind, number>> = {
  set: 6,
  delete: 2,
  pause: 1,
  resume: 1,
  run: 1.5,
  inspect: 1.5,
};

interface ContendedCounts {
  answers: number;
  restarts: number;
  ticks: number;
  moves: number;
}

/** The job of a tick, and its record. */
interface Tick {
  readonly shard: number;
  readonly record: number;
}

export async function contendForNames(options: BatchSimulationOptions): Promise<ContendedCounts> {
  const simulation = new ContendedNames(options);
  try {
    return await simulation.run();
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    const last = simulation.lastActs.slice(-12).join("\n        ");
    throw new Error(`seed ${options.seed}: ${why}\n  last: ${last}`, { cause: error });
  }
}

class ContendedNames extends BatchServer {
  readonly #counts: ContendedCounts = { answers: 0, restarts: 0, ticks: 0, moves: 0 };
  readonly #histories = new Map(NAMES.map((name) => [name as string, new NameHistory(name)]));
  #ticks = new Map<string, Tick>();
  #lastNumber = 0;

  constructor(options: BatchSimulationOptions) {
    super(options, []);
  }

  async run(): Promise<ContendedCounts> {
    await this.start();
    for (let step = 0; step < this.options.steps; step++) {
      this.#act();
      for (let turns = this.random.between(0, 12); turns > 0 && this.server.step(); turns--);
      this.takeReplies();
      if (this.random.chance(0.02)) this.#rest();
      if (this.random.chance(0.01)) await this.restart();
    }
    this.#rest();
    await this.restart();
    this.#counts.restarts = this.restarts;
    return this.#counts;
  }

  protected override async start(): Promise<void> {
    await super.start();
    for (const [shard, { engine }] of this.server.shards.entries()) {
      const put = engine.putScheduled.bind(engine);
      engine.putScheduled = (tube, job, body, nowMs, attributes) => {
        const outcome = put(tube, job, body, nowMs, attributes);
        if (outcome !== Outcome.Done || attributes?.hasKey !== true) return outcome;
        const key = latin1(attributes.fixed.bytes, attributes.keyStart, attributes.keyEnd);
        assert.ok(!this.#ticks.has(key), `the tick ${key} comes once`);
        this.#ticks.set(key, { shard, record: this.server.records[shard]!.lastNumber });
        this.#counts.ticks++;
        return outcome;
      };
    }
  }

  protected override async restart(): Promise<void> {
    const storage = this.server.storage!;
    await super.restart();
    // Others may be lost with the process, and come again.
    this.#ticks = new Map(
      [...this.#ticks].filter(([, { shard, record }]) => record <= storage.tail.synced[shard]!),
    );
    const found = this.#found();
    for (const [name, history] of this.#histories) history.restart(found.get(name));
    this.#rest();
  }

  #act(): void {
    const random = this.random;
    const client = random.pick(this.clients.filter(({ isIdle }) => isIdle));
    const kind = random.weighted({ ask: 20, clear: 1, vanish: 0.3, time: 1 });
    if (kind === "time") this.server.nowMs += random.pick([random.between(1, 300), 1000, 2600]);
    else if (kind === "vanish") this.#vanish();
    else if (client === undefined) return;
    else if (kind === "ask") this.#ask(client);
    else client.ask(`clear-tube ${this.#tube()}`, ({ line }) => assert.match(line, /^CLEARED \d+$/));
  }

  #tube(): string {
    const { length } = this.server.shards;
    return tubeOn(this.random.below(length), length, this.random.pick(["t", "u"]));
  }

  #ask(client: BatchClient): void {
    const name = this.random.pick(NAMES);
    const kind = this.random.weighted(ACTS);
    const number = ++this.#lastNumber;
    const body = `${number}`;
    const text =
      kind === "set"
        ? `set-schedule ${name} ${this.#tube()} 0 0 60 ${body.length} ${this.random.pick(TIMINGS)}\r\n${body}`
        : `${kind}-schedule ${name}`;
    this.say(`${number}: ${text.split("\r\n")[0]}`);
    const act = { number, kind };
    this.#histories.get(name)!.begin(act);
    client.ask(text, (reply) => {
      this.#counts.answers++;
      this.#histories.get(name)!.end(act, answerOf(reply));
    });
  }

  /** What it asked may still happen, now or never. */
  #vanish(): void {
    const at = this.random.below(this.clients.length);
    this.say("a client vanishes");
    this.clients[at]!.socket.reset();
    this.clients[at] = new BatchClient(this.server.connect());
  }

  #rest(): void {
    this.say("rest");
    this.settle();
    for (const client of this.clients) assert.ok(client.isIdle, "all commands are answered");
    for (const { schedules } of this.server.shards)
      assert.equal(schedules.claims.size, 0, "no claim is left");
    for (const { engine } of this.server.shards)
      for (const { name, isFrozen, nextMs, timer } of engine.schedules.table.values()) {
        assert.ok(!isFrozen, `${name} is not frozen at rest`);
        const isAwaited = timer.atMs < Number.POSITIVE_INFINITY;
        assert.equal(isAwaited, nextMs < Number.POSITIVE_INFINITY, `${name} waits for its tick`);
      }
    const found = this.#found();
    for (const [name, history] of this.#histories) history.rest(found.get(name));
  }

  /** Returns what is there. */
  #found(): ReadonlyMap<string, NamedSchedule> {
    const found = new Map<string, NamedSchedule>();
    for (const { engine } of this.server.shards)
      for (const { name, body, bodyBytes, paused, runs } of engine.schedules.table.values()) {
        assert.ok(!found.has(name), `${name} is on one shard`);
        const bytes = new Uint8Array(bodyBytes);
        engine.bodies.read(body, 0, bytes, 0, bodyBytes);
        found.set(name, { set: Number(latin1(bytes, 0, bodyBytes)), paused, runs });
      }
    return found;
  }
}

/** Returns the first word of a reply, or what inspect-schedule shows. */
function answerOf({ line, body }: BatchReply): string {
  if (!line.startsWith("OK")) return line.split(" ")[0]!;
  const rows = new Map(body.split("\n").map((row) => row.split(": ") as [string, string]));
  return reportOf({
    set: Number(JSON.parse(rows.get("body")!)),
    paused: rows.get("paused") === "true",
    runs: Number(rows.get("runs")),
  });
}
