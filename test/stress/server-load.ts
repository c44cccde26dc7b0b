// Mixed load on a server from some fifty connections: every reply is checked, and every put is
// accounted for.

import { setTimeout as sleep } from "node:timers/promises";
import type { SeededRandom } from "../support/seeded-random.ts";
import type { ServerProcess } from "../support/server/server-process.ts";
import { type Reply, WireClient } from "../support/server/wire-client.ts";
import type { Outcome } from "./case.ts";

/** Every shard of four and of seven has one at least. */
const TUBES = ["alpha", "beta", "gamma", "delta", "zeta", "kappa", "upsilon"] as const;
const PRODUCERS = 10;
const CONSUMERS = 30;
const DESERTERS = 6;
const ASKERS = 4;
const LEAVERS = 3;
/** Around the pieces and batches of the smallest ring, and the largest body of all. */
const BODY_BYTES = [0, 1, 60, 60, 60, 300, 960, 1020, 1100, 4100, 20_000, 65_535] as const;
const PUTS_AT_ONCE = 6;
/** A reply that takes so long beyond its own timeout does not come at all. */
const REPLY_MS = 60_000;
const DRAIN_MS = 120_000;

const reply = (result: string, why: string, verdict: Outcome["verdict"] = "ACCEPTABLE"): Outcome => ({
  result,
  verdict,
  why,
});
const required = (result: string, why: string): Outcome => ({ ...reply(result, why), required: true });

export const LOAD_OUTCOMES: readonly Outcome[] = [
  required("use USING", "a tube can always be used"),
  required("put INSERTED", "there is room"),
  required("reserve RESERVED", "a job was ready, or became ready while the client waited"),
  required("reserve TIMED_OUT", "no job came in time"),
  required("delete DELETED", "the client holds the job"),
  required("release RELEASED", "the client holds the job"),
  required("bury BURIED", "the client holds the job"),
  required("touch TOUCHED", "the client holds the job"),
  required("peek FOUND", "the job is there"),
  reply("peek NOT_FOUND", "somebody deletes, or has deleted, the job", "INTERESTING"),
  reply("kick KICKED", "buried jobs of the tube are ready again"),
  required("after an end RESERVED", "who has seen the end of a connection finds what it held"),
  required("after an end not watched", "and does not find it among those who watch and use a tube"),
  required("put, and deleted once", "what was acknowledged is there until somebody deletes it"),
];

interface Job {
  /** Body of the last put whose INSERTED was read. */
  put: string | undefined;
  /** Body of the last job that a client got. */
  got: string | undefined;
  deletes: number;
  isDeleting: boolean;
}

export class ServerLoad {
  readonly counts: Map<string, number> = new Map();
  readonly failures: string[] = [];
  readonly #server: ServerProcess;
  readonly #random: SeededRandom;
  readonly #jobs = new Map<number, Job>();
  readonly #known = new Set(LOAD_OUTCOMES.map(({ result }) => result));
  #bodies = 0;
  #latest = 0;
  #over = false;

  constructor(server: ServerProcess, random: SeededRandom) {
    this.#server = server;
    this.#random = random;
  }

  get connections(): number {
    return PRODUCERS + CONSUMERS + DESERTERS + ASKERS + 2 * LEAVERS;
  }

  /** Puts load on the server, then takes all that is left and counts. */
  async run(seconds: number): Promise<void> {
    const work: Promise<void>[] = [];
    const add = (count: number, part: () => Promise<void>): void => {
      for (let i = 0; i < count; i++) work.push(this.#watched(part));
    };
    add(PRODUCERS, () => this.#produce());
    add(CONSUMERS, () => this.#consume());
    add(DESERTERS, () => this.#desert());
    add(ASKERS, () => this.#ask());
    for (let each = 0; each < LEAVERS; each++) work.push(this.#watched(() => this.#leave(`own-${each}`)));
    const endsAt = performance.now() + seconds * 1000;
    while (performance.now() < endsAt && this.failures.length === 0 && !this.#server.hasExited)
      await sleep(20);
    this.#over = true;
    await Promise.all(work);
    if (this.failures.length === 0) await this.#watched(() => this.#drain());
    if (this.failures.length === 0) this.#account();
  }

  get #goesOn(): boolean {
    return !this.#over && this.failures.length === 0;
  }

  async #watched(part: () => Promise<void>): Promise<void> {
    try {
      await part();
    } catch (error) {
      this.failures.push(error instanceof Error ? (error.stack ?? error.message) : String(error));
    }
  }

  #see(result: string, detail: string): void {
    this.counts.set(result, (this.counts.get(result) ?? 0) + 1);
    if (!this.#known.has(result)) this.failures.push(`${result} (${detail})`);
  }

  #seeReply(command: string, { line }: Reply, detail: string): string {
    const word = line.split(" ")[0]!;
    this.#see(`${command} ${word}`, `${line}, ${detail}`);
    return word;
  }

  #job(id: number): Job {
    let job = this.#jobs.get(id);
    if (job === undefined)
      this.#jobs.set(id, (job = { put: undefined, got: undefined, deletes: 0, isDeleting: false }));
    return job;
  }

  async #connect(): Promise<WireClient> {
    const client = await WireClient.connect(this.#server.address);
    client.replyMs = REPLY_MS;
    return client;
  }

  async #produce(): Promise<void> {
    const client = await this.#connect();
    const random = this.#random;
    while (this.#goesOn) {
      const bodies = Array.from({ length: random.between(1, PUTS_AT_ONCE) }, () => this.#body());
      client.send(bodies.map((body) => this.#putLines(body)).join(""));
      for (const body of bodies) {
        this.#seeReply("use", await client.readReply(), "");
        const answer = await client.readReply();
        this.#seeReply("put", answer, `${body.length} bytes`);
        const id = Number(answer.line.split(" ")[1]);
        if (this.#job(id).put !== undefined) this.failures.push(`the id ${id} was given twice`);
        this.#job(id).put = body;
        this.#latest = Math.max(this.#latest, id);
      }
      // Consumers must come to wait.
      await sleep(random.chance(0.5) ? random.between(0, 10) : random.between(50, 300));
    }
    client.close();
  }

  /** Another tube each time: jobs for the same waiter come from several shards at once. */
  #putLines(body: string): string {
    const random = this.#random;
    const delaySeconds = random.chance(0.05) ? 1 : 0;
    const put = `put ${random.between(0, 3)} ${delaySeconds} 120 ${body.length}\r\n${body}\r\n`;
    return `use ${random.pick(TUBES)!}\r\n${put}`;
  }

  #body(): string {
    const bytes = this.#random.pick(BODY_BYTES)!;
    return `${this.#bodies++} `.padEnd(bytes, "abcdefghij").slice(0, bytes);
  }

  async #watching(): Promise<WireClient> {
    const client = await this.#connect();
    const tubes = TUBES.filter(() => this.#random.chance(0.5));
    for (const tube of tubes.length === 0 ? TUBES : tubes) await client.ask(`watch ${tube}`);
    if (this.#random.chance(0.5)) await client.ask("ignore default");
    return client;
  }

  async #consume(): Promise<void> {
    const random = this.#random;
    let client = await this.#watching();
    while (this.#goesOn) {
      const id = await this.#reserve(client, random.chance(0.2) ? 0 : 1);
      if (id === undefined) continue;
      const fate = random.weighted({ delete: 12, release: 3, bury: 2, touch: 2, leave: 1 });
      if (fate === "leave") {
        client.close();
        client = await this.#watching();
      } else await this.#deal(client, id, fate);
    }
    client.close();
  }

  /** The id that the client got, or undefined. */
  async #reserve(client: WireClient, seconds: number): Promise<number | undefined> {
    client.send(`reserve-with-timeout ${seconds}\r\n`);
    const answer = await client.readReply(seconds * 1000 + REPLY_MS);
    if (this.#seeReply("reserve", answer, `timeout ${seconds}`) !== "RESERVED") return undefined;
    const id = Number(answer.line.split(" ")[1]);
    const job = this.#job(id);
    const body = answer.body!.toString("latin1");
    if (job.deletes > 0) this.failures.push(`job ${id} was reserved after it had been deleted`);
    if ((job.got ??= body) !== body) this.failures.push(`job ${id} has changed its body`);
    return id;
  }

  async #deal(client: WireClient, id: number, fate: "delete" | "release" | "bury" | "touch"): Promise<void> {
    if (fate === "delete") await this.#delete(client, id);
    else if (fate === "touch") {
      this.#seeReply("touch", await client.ask(`touch ${id}`), `${id}`);
      await this.#delete(client, id);
    } else if (fate === "bury") this.#seeReply("bury", await client.ask(`bury ${id} 1`), `${id}`);
    else
      this.#seeReply("release", await client.ask(`release ${id} ${this.#random.between(0, 3)} 0`), `${id}`);
  }

  async #delete(client: WireClient, id: number): Promise<void> {
    const job = this.#job(id);
    job.isDeleting = true;
    if (this.#seeReply("delete", await client.ask(`delete ${id}`), `${id}`) === "DELETED") job.deletes++;
  }

  /** Waits for a job and is gone before or after it comes. */
  async #desert(): Promise<void> {
    while (this.#goesOn) {
      const client = await this.#watching();
      client.send("reserve\r\n");
      await sleep(this.#random.between(0, 30));
      if (this.#random.chance(0.5)) client.close();
      else client.reset();
    }
  }

  /**
   * Has a connection that holds a job ended, and looks for the job by another one when it has seen
   * the end.
   */
  async #leave(tube: string): Promise<void> {
    const heir = await this.#connect();
    await heir.ask(`watch ${tube}`);
    await heir.ask("ignore default");
    while (this.#goesOn) {
      const client = await this.#connect();
      await client.ask(`use ${tube}`);
      await client.ask(`watch ${tube}`);
      await client.ask("ignore default");
      const body = this.#body();
      const answer = await client.put(body, { ttr: 120 });
      this.#seeReply("put", answer, `${body.length} bytes`);
      const id = Number(answer.line.split(" ")[1]);
      this.#job(id).put = body;
      this.#seeReply("reserve", await client.ask("reserve"), tube);
      if (this.#random.chance(0.5)) client.send("quit\r\n");
      else client.halfClose();
      await client.expectEnd();
      client.close();
      const { line, body: got } = await heir.ask("reserve-with-timeout 0");
      this.#see(`after an end ${line.split(" ")[0]}`, `${line}, job ${id}`);
      this.#job(id).got = got?.toString("latin1");
      const stats = (await heir.ask(`stats-tube ${tube}`)).body!.toString("latin1");
      const isGone = /^current-using: 0$/m.test(stats) && /^current-watching: 1$/m.test(stats);
      this.#see(`after an end ${isGone ? "not" : "still"} watched`, stats);
      await this.#delete(heir, id);
    }
    heir.close();
  }

  /** Looks at jobs of others, by id, and kicks. */
  async #ask(): Promise<void> {
    const client = await this.#connect();
    const random = this.#random;
    while (this.#goesOn) {
      await sleep(random.between(0, 10));
      if (this.#latest === 0) continue;
      if (random.chance(0.1)) {
        await client.ask(`use ${random.pick(TUBES)!}`);
        this.#seeReply("kick", await client.ask(`kick ${random.between(1, 10)}`), "");
        continue;
      }
      const id = random.between(Math.max(1, this.#latest - 200), this.#latest);
      const isPut = this.#job(id).put !== undefined;
      const answer = await client.ask(`peek ${id}`);
      if (this.#seeReply("peek", answer, `${id}`) === "FOUND") continue;
      if (isPut && !this.#job(id).isDeleting)
        this.failures.push(`job ${id} was not found, and nobody deleted it`);
    }
    client.close();
  }

  async #drain(): Promise<void> {
    const client = await this.#connect();
    for (const tube of TUBES) await client.ask(`watch ${tube}`);
    const endsAt = performance.now() + DRAIN_MS;
    for (;;) {
      for (const tube of TUBES) {
        await client.ask(`use ${tube}`);
        this.#seeReply("kick", await client.ask("kick 1000000"), tube);
      }
      for (;;) {
        const id = await this.#reserve(client, 0);
        if (id === undefined) break;
        await this.#delete(client, id);
      }
      const stats = (await client.ask("stats")).body!.toString("latin1");
      const left = [...stats.matchAll(/^current-jobs-(?:ready|reserved|delayed|buried): (\d+)$/gm)];
      if (left.length !== 4) throw new Error(`stats without numbers of jobs: ${stats}`);
      if (left.every(([, count]) => count === "0")) break;
      if (performance.now() > endsAt)
        throw new Error(`jobs are left after ${DRAIN_MS} ms: ${left.join(" ")}`);
      await sleep(20);
    }
    client.close();
  }

  #account(): void {
    const ids = [...this.#jobs.keys()].sort((a, b) => a - b);
    for (const [index, id] of ids.entries()) {
      const { put, got, deletes } = this.#jobs.get(id)!;
      if (id !== index + 1) this.failures.push(`the id ${index + 1} was not given, but ${id}`);
      if (put === undefined) this.failures.push(`job ${id} was never put`);
      else if (deletes !== 1) this.failures.push(`job ${id} was deleted ${deletes} times`);
      else if (got !== put) this.failures.push(`job ${id} has another body than was put`);
      else this.#see("put, and deleted once", `${id}`);
      if (this.failures.length > 0) return;
    }
  }
}
