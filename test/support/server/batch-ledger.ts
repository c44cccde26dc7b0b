// What clients know of the batches on a server that is killed again and again: which members may
// have ended, which callbacks may come, and which came already.

import assert from "node:assert/strict";
import type { SeededRandom } from "../seeded-random.ts";
import type { WireClient } from "./wire-client.ts";

/** Tubes of members. With four shards, with seven and with three they are on more than one. */
type Tubes = readonly [string, ...string[]];
/** Those of large batches: behind their members, those of small ones would wait for long. */
export const LARGE_TUBES: Tubes = ["mails", "done", "c", "d"];
export const SMALL_TUBES: Tubes = ["e", "f", "g", "h"];
const MEMBER_TUBES: readonly string[] = [...LARGE_TUBES, ...SMALL_TUBES];
const CALLBACK_TUBE = "calls";
/** Nobody watches it: its members fail, because they end while nobody holds them. */
const FAILING_TUBE = "failing";
/** End of the body of a member that a worker cancels and gives back, so that it fails. */
const DOOMED = " doomed";
const TAKEN_AT_ONCE = 10;
const WAIT_SECONDS = 1;
/** Longer than the longest campaign. */
const TTR_SECONDS = 1_000_000;
/** Small batches that are there at the same time, and members of each. */
const SMALL_LIVE = 8;
const SMALL_MEMBERS = 12;
/** Workers at the end. */
const WORKERS = 3;
/** No answer for so long at the end means that a callback is lost. */
const STUCK_MS = 60_000;

type Kind = "after" | "after-any";
type Callback = "waits" | "unsure" | "done";

interface LedgerBatch {
  readonly name: string;
  /** Members whose delete was never sent. */
  readonly open: Set<number>;
  /** Members whose delete was sent, and whose answer nobody has seen. */
  readonly unsure: Set<number>;
  /** Members among these that are to fail. */
  readonly failing: Set<number>;
  /** Ids of the jobs that wait. */
  readonly ids: Record<Kind, number>;
  /** Whether a member fails, so that no callback for success may come. */
  fails: boolean;
  /** The commit was answered. If it was not when the server was killed, the next life cancels. */
  isCommitted: boolean;
  /** Members that a worker has got before the puts were answered, and whether their end was. */
  readonly early: Map<number, boolean>;
  readonly callbacks: Record<Kind, Callback>;
}

/** What has been done so far. */
interface BatchCounts {
  members: number;
  batches: number;
  failedBatches: number;
  abandoned: number;
  /** Callbacks whose delete was answered. */
  callbacks: number;
}

/** Works until the connection ends with the server. */
export async function untilKilled(
  work: (client: WireClient) => Promise<void>,
  connected: WireClient | Promise<WireClient>,
): Promise<void> {
  try {
    await work(await connected);
  } catch (error) {
    if (error instanceof assert.AssertionError) throw error;
  }
}

export class BatchLedger {
  readonly counts: BatchCounts = { members: 0, batches: 0, failedBatches: 0, abandoned: 0, callbacks: 0 };
  /** Called after each answer, and after the last delete of a batch has been sent. */
  onProgress: (isLast: boolean) => void = () => {};
  readonly #batches = new Map<string, LedgerBatch>();
  /** Those that aren't over. */
  readonly #live = new Set<LedgerBatch>();
  readonly #random: SeededRandom;

  constructor(random: SeededRandom) {
    this.#random = random;
  }

  /** Batches that are not over: members that may be there, or a callback still to come. */
  get live(): number {
    return this.#live.size;
  }

  get #openMembers(): number {
    let open = 0;
    for (const batch of this.#live) open += batch.open.size + batch.unsure.size;
    return open;
  }

  /** Says what is missing of the batches that aren't over. */
  #describe(): string {
    const lines = [...this.#live].map(({ name, open, unsure, failing, fails, ids, callbacks }) => {
      const sets = { open: [...open], unsure: [...unsure], failing: [...failing] };
      return `${name} ${JSON.stringify({ ...sets, fails, ids, callbacks })}`;
    });
    return lines.join("\n");
  }

  /** Puts a batch whole and commits it, all without waiting for an answer in between. */
  async put(client: WireClient, tubes: Tubes, members: number, failing: number): Promise<void> {
    const name = `batch-${this.#batches.size}`;
    const batch: LedgerBatch = {
      name,
      open: new Set(),
      unsure: new Set(),
      failing: new Set(),
      ids: { after: 0, "after-any": 0 },
      fails: failing > 0,
      isCommitted: false,
      early: new Map(),
      callbacks: { after: "waits", "after-any": "waits" },
    };
    this.#batches.set(name, batch);
    this.#live.add(batch);
    const job = (tube: string, option: string, body: string): string =>
      `put-in-tube ${tube} 0 0 ${TTR_SECONDS} ${body.length} ${option}\r\n${body}\r\n`;
    const lines = [
      `open-batch ${name}\r\n`,
      job(CALLBACK_TUBE, `after=${name}`, `after ${name}`),
      job(CALLBACK_TUBE, `after-any=${name}`, `after-any ${name}`),
    ];
    const doomed = this.#random.between(0, failing);
    const alone = failing - doomed;
    for (let n = 0; n < members; n++) {
      const tube = n < alone ? FAILING_TUBE : this.#random.pick(tubes);
      const isDoomed = n >= alone && n < failing;
      lines.push(job(tube, `batch=${name}`, `member ${name}${isDoomed ? DOOMED : ""}`));
    }
    client.send(`${lines.join("")}commit-batch ${name}\r\n`);
    const answers: string[] = [];
    for (let left = members + 4; left > 0; left--) answers.push((await client.readReply()).line);
    assert.deepEqual([answers[0], answers.at(-1)], ["OPENED", "COMMITTED"], name);
    const ids = answers
      .slice(1, -1)
      .map((line) => Number(/^INSERTED (\d+)$/.exec(line)?.[1] ?? assert.fail(line)));
    batch.ids.after = ids[0]!;
    batch.ids["after-any"] = ids[1]!;
    for (const id of ids.slice(2)) {
      if (!batch.early.has(id)) batch.open.add(id);
      else if (batch.early.get(id) === false) batch.unsure.add(id);
    }
    for (const id of ids.slice(2, 2 + alone)) batch.failing.add(id);
    batch.isCommitted = true;
    // Its callbacks may have come before this client has read its answers.
    this.#closeIfOver(batch);
    this.onProgress(batch.open.size === 0);
  }

  /** After a start: settles what was unsure, and keeps a large batch and small ones there. */
  async fill(client: WireClient, largeMembers: number, openMin: number): Promise<void> {
    await this.#cancelAbandoned(client);
    await this.#settleCallbacks(client);
    const random = this.#random;
    if (this.#openMembers < openMin) await this.put(client, LARGE_TUBES, largeMembers, 0);
    while (this.live < SMALL_LIVE) {
      const members = random.between(0, SMALL_MEMBERS);
      const failing = random.chance(0.3) ? Math.min(members, random.between(1, 3)) : 0;
      await this.put(client, SMALL_TUBES, members, failing);
    }
  }

  /** Moves members between tubes, and so between shards, until the connection ends. */
  async moveOn(client: WireClient): Promise<void> {
    for (;;) {
      const tubes = this.#random.pick([LARGE_TUBES, SMALL_TUBES] as const);
      const [from, to] = [this.#random.pick(tubes), this.#random.pick(tubes)];
      await client.ask(`move-jobs ${from} ${to} limit=20`);
    }
  }

  /** At the end: works until each callback that is due has come, and checks what is left. */
  async finish(connect: () => Promise<WireClient>): Promise<void> {
    const clients = await Promise.all(Array.from({ length: WORKERS + 1 }, connect));
    const [checker, ...workers] = clients as [WireClient, ...WireClient[]];
    await this.#cancelAbandoned(checker);
    await this.#settleCallbacks(checker);
    let progressAt = performance.now();
    this.onProgress = () => (progressAt = performance.now());
    const isOver = (): boolean => {
      if (this.live === 0) return true;
      const isStuck = performance.now() - progressAt > STUCK_MS;
      assert.ok(!isStuck, `no callback comes, or no member:\n${this.#describe()}`);
      return false;
    };
    await Promise.all(workers.map((worker) => this.work(worker, [...LARGE_TUBES, ...SMALL_TUBES], isOver)));
    await this.#checkRest(checker);
    for (const client of clients) client.close();
  }

  /** After a start: cancels the batches that the kill has left without a commit. */
  async #cancelAbandoned(client: WireClient): Promise<void> {
    for (const batch of this.#live) {
      if (batch.isCommitted) continue;
      const { line } = await client.ask(`cancel-batch ${batch.name}`);
      assert.match(line, /^(CANCELLED|NOT_FOUND|BATCH_COMPLETE)$/, batch.name);
      if (line === "CANCELLED") batch.fails = true;
      this.#live.delete(batch);
      this.counts.abandoned++;
    }
  }

  /** After a start: settles the callbacks that came, and whose delete was not answered. */
  async #settleCallbacks(client: WireClient): Promise<void> {
    for (const batch of this.#live)
      for (const kind of ["after", "after-any"] as const) {
        if (!batch.isCommitted || batch.callbacks[kind] !== "unsure") continue;
        const { line } = await client.ask(`peek ${batch.ids[kind]}`);
        if (line !== "NOT_FOUND" || batch.callbacks[kind] !== "unsure") continue;
        batch.callbacks[kind] = "done";
        this.counts.callbacks++;
        this.#closeIfOver(batch);
      }
  }

  /** Ends members and takes callbacks until the connection ends, or until `isOver`. */
  async work(client: WireClient, tubes: Tubes, isOver: () => boolean): Promise<void> {
    for (const tube of [...tubes, CALLBACK_TUBE]) await client.ask(`watch ${tube}`);
    while (!isOver()) {
      await this.#failOne(client);
      const { line } = await client.ask(
        `reserve-batch ${this.#random.between(1, TAKEN_AT_ONCE)} ${WAIT_SECONDS}`,
      );
      if (line === "TIMED_OUT") continue;
      const count = Number(/^RESERVED_BATCH (\d+)$/.exec(line)?.[1] ?? assert.fail(line));
      const jobs: { id: number; body: string }[] = [];
      for (let left = count; left > 0; left--) {
        const reply = await client.readReply();
        jobs.push({ id: Number(reply.line.split(" ")[1]), body: reply.body!.toString("latin1") });
      }
      for (const { id, body } of jobs) this.#taken(id, body);
      const ends = jobs.map(({ id, body }) => this.#endOf(id, body));
      client.send(ends.flatMap((end) => end.map(([command]) => `${command}\r\n`)).join(""));
      this.#sent(jobs);
      for (const [at, { id, body }] of jobs.entries()) {
        for (const [command, answer] of ends[at]!)
          assert.equal(
            (await client.readReply()).line,
            answer,
            `${command} of ${body}, which its worker holds`,
          );
        this.#ended(id, body);
      }
    }
  }

  /** Returns the commands with which a worker ends a job, and their answers. */
  #endOf(id: number, body: string): readonly (readonly [command: string, answer: string])[] {
    if (!body.endsWith(DOOMED)) return [[`delete ${id}`, "DELETED"]];
    const giveBack = this.#random.pick([
      [`release ${id} 0 0`, "RELEASED"],
      [`bury ${id} 0`, "BURIED"],
    ] as const);
    return [[`cancel-job ${id}`, "CANCELLING"], giveBack];
  }

  #of(body: string): { kind: string; batch: LedgerBatch } {
    const [kind, name] = body.split(" ") as [string, string];
    return { kind, batch: this.#batches.get(name) ?? assert.fail(`"${body}" was never put`) };
  }

  /** A worker has got the job: may it? Its delete is about to be sent. */
  #taken(id: number, body: string): void {
    const { kind, batch } = this.#of(body);
    if (kind === "member") {
      if (!batch.isCommitted) batch.early.set(id, false);
      else {
        assert.ok(
          batch.open.delete(id) || batch.unsure.has(id),
          `${body}, job ${id}, was deleted and is back`,
        );
        batch.unsure.add(id);
      }
      return;
    }
    assert.ok(kind === "after" || kind === "after-any", body);
    assert.equal(batch.open.size, 0, `"${body}" comes before the last member has ended`);
    assert.ok(kind !== "after" || !batch.fails, `"${body}" comes although a member has failed`);
    assert.notEqual(batch.callbacks[kind], "done", `"${body}" was deleted and is back`);
    batch.callbacks[kind] = "unsure";
  }

  #sent(jobs: readonly { readonly body: string }[]): void {
    this.onProgress(
      jobs.some(({ body }) => body.startsWith("member") && this.#of(body).batch.open.size === 0),
    );
  }

  #ended(id: number, body: string): void {
    const { kind, batch } = this.#of(body);
    if (kind === "member") {
      if (batch.unsure.delete(id) || batch.early.has(id)) this.counts.members++;
      if (!batch.isCommitted) batch.early.set(id, true);
    } else {
      batch.callbacks[kind as Kind] = "done";
      this.counts.callbacks++;
    }
    this.#closeIfOver(batch);
    this.onProgress(false);
  }

  #closeIfOver(batch: LedgerBatch): void {
    const { after, "after-any": afterAny } = batch.callbacks;
    if (!batch.isCommitted) return;
    if (afterAny !== "done" || (after !== "done" && !batch.fails) || !this.#live.delete(batch)) return;
    // Deletes without an answer were done: the callback says so.
    this.counts.members += batch.unsure.size;
    batch.unsure.clear();
    this.counts.batches++;
    if (batch.fails) this.counts.failedBatches++;
  }

  /** Lets one member fail. */
  async #failOne(client: WireClient): Promise<void> {
    const batch = this.#random.pick([...this.#live].filter(({ failing }) => failing.size > 0));
    if (batch === undefined) return;
    const [id] = batch.failing;
    const isUnsure = !batch.open.delete(id!);
    batch.unsure.add(id!);
    const [command, answer] = this.#random.pick([
      ["delete", "DELETED"],
      ["cancel-job", "CANCELLED"],
    ] as const);
    client.send(`${command} ${id}\r\n`);
    this.onProgress(batch.open.size === 0);
    const { line } = await client.readReply();
    // Another client may have sent the same.
    if (!batch.failing.delete(id!)) return;
    if (line !== answer) assert.ok(isUnsure, `member ${id} of ${batch.name} is lost: ${line}`);
    if (batch.unsure.delete(id!)) this.counts.members++;
    this.onProgress(false);
  }

  /** At the end, when no batch is live: checks what is left on the server. */
  async #checkRest(client: WireClient): Promise<void> {
    for (const { name, ids, fails, isCommitted } of this.#batches.values()) {
      if (!fails || !isCommitted) continue;
      const { body } = await client.ask(`stats-job ${ids.after}`);
      assert.match(body?.toString() ?? "", /^state: buried$/m, `after=${name}, of which a member failed`);
    }
    for (const tube of [...MEMBER_TUBES, CALLBACK_TUBE, FAILING_TUBE]) {
      const text = (await client.ask(`stats-tube ${tube}`)).body?.toString() ?? "";
      // A batch that was cancelled leaves callbacks for any outcome.
      const states = tube === CALLBACK_TUBE ? ["delayed"] : ["ready", "reserved", "delayed"];
      for (const state of states)
        assert.match(text, new RegExp(`^(current-jobs-${state}: 0|)$`, "m"), `${tube} has no job left`);
    }
  }
}
