// Batches on the whole server in one process: random clients, schedules, moves, deaths and ends of
// the process, each from a seed. At the end every batch has to be complete with the outcome that
// its members deserve, and every callback has come once, or never.

import assert from "node:assert/strict";
import { checkBatches } from "./batch-checks.ts";
import { BatchClient } from "./batch-client.ts";
import { BatchPlan, type Fate, type PlannedBatch, type PlannedJob } from "./batch-plan.ts";
import { BatchServer, type BatchSimulationOptions } from "./batch-server.ts";

interface BatchSimulationResult {
  readonly restarts: number;
  readonly batches: number;
  readonly callbacks: number;
}

/** Where work gets done; jobs move between these. */
const WORK = ["w0", "w1", "w2", "w3"] as const;
/** Where a member has one attempt; the first has a dead-letter tube, on other shards at times. */
const DEADLY = ["die0", "die1"] as const;
const CALLBACKS = ["call0", "call1"] as const;
const TUBES = [...WORK, ...DEADLY, "dead", ...CALLBACKS];
/** Members live this long; a run takes less until time passes at its end. */
const TTL_SECONDS = 5;
const FATES: Readonly<Record<Fate, number>> = {
  ...{ done: 12, died: 1, expired: 0.4, cleared: 0.4, deleted: 0.6, cancelled: 0.8 },
};

export async function simulateBatches(options: BatchSimulationOptions): Promise<BatchSimulationResult> {
  const simulation = new BatchSimulation(options);
  try {
    return await simulation.run();
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new Error(
      `seed ${options.seed}: ${why}\n  last: ${simulation.lastActs.slice(-12).join("\n        ")}`,
      {
        cause: error,
      },
    );
  }
}

class BatchSimulation extends BatchServer {
  readonly #plan = new BatchPlan();
  /** Whether everything is brought to its end. */
  #isEnding = false;

  constructor(options: BatchSimulationOptions) {
    super(options, TUBES);
  }

  async run(): Promise<BatchSimulationResult> {
    await this.start();
    await this.#setUp();
    for (let step = 0; step < this.options.steps; step++) {
      this.#act();
      for (let turns = this.random.between(0, 12); turns > 0 && this.server.step(); turns--);
      this.takeReplies();
      checkBatches(this.engines);
      if (this.random.chance(0.02)) await this.restart();
    }
    await this.#finish();
    const callbacks = this.#jobs.filter(({ fate, deliveries }) => fate === undefined && deliveries > 0);
    return { restarts: this.restarts, batches: this.#plan.batches.length, callbacks: callbacks.length };
  }

  get #jobs(): PlannedJob[] {
    return this.#plan.batches.flatMap(({ jobs }) => jobs);
  }

  async #setUp(): Promise<void> {
    this.must("set-tube die0 max-attempts=1 dead-letter=dead", /^SET$/);
    this.must("set-tube die1 max-attempts=1", /^SET$/);
    for (const client of this.clients) this.watch(client);
  }

  protected override async restart(): Promise<void> {
    this.#plan.restart();
    await super.restart();
  }

  // --- acts --------------------------------------------------------------------------------------

  #act(): void {
    const random = this.random;
    const client = random.pick(this.clients.filter(({ isIdle }) => isIdle));
    if (client === undefined) return;
    const kind = random.weighted({
      ...{ open: 1, member: 8, callback: 2, commit: 1, cancel: 0.15, reserve: 12, work: 12 },
      ...{
        move: 2,
        handOn: 1,
        cancelInHop: this.options.hops === true ? 8 : 0.3,
        remove: 1,
        cancelJob: 1,
        kick: 1,
        inspect: 1,
        vanish: 0.3,
        time: 0.5,
      },
    });
    if (kind === "open") this.#open(client);
    else if (kind === "member") this.#putMember(client);
    else if (kind === "callback") this.#putCallback(client);
    else if (kind === "commit") this.#commit(client, random.pick(this.#plan.batches));
    else if (kind === "cancel") this.#cancel(client, random.pick(this.#plan.batches));
    else if (kind === "reserve") this.#reserve(client);
    else if (kind === "work") this.#work(client);
    else if (kind === "move") this.#move(client);
    else if (kind === "handOn") this.#handOn(client);
    else if (kind === "cancelInHop") this.#cancelInHop();
    else if (kind === "remove") this.#remove(client);
    else if (kind === "cancelJob") this.#cancelJob(client, random.pick(this.#toCancel));
    else if (kind === "kick") client.ask(`kick-job ${this.#someMember()}`, () => {});
    else if (kind === "inspect") this.#inspect(client);
    else if (kind === "vanish") this.#vanish(client);
    else this.server.nowMs += random.between(1, 20);
  }

  #someMember(): number {
    return this.random.pick(this.#jobs.filter(({ id, fate }) => id > 0 && fate !== undefined))?.id ?? 1;
  }

  #open(client: BatchClient): void {
    const open = this.#plan.batches.filter(({ isCommitted }) => !isCommitted);
    if (open.length > 3) return;
    const again = open.find(({ isOpen }) => !isOpen);
    const batch = again ?? this.#plan.open(`b${this.#plan.batches.length}`);
    this.say(`open-batch ${batch.name}`);
    client.ask(`open-batch ${batch.name}`, ({ line }) => {
      assert.match(line, /^(OPENED|BATCH_EXISTS)$/);
      batch.isOpen = true;
    });
  }

  #putMember(client: BatchClient): void {
    const random = this.random;
    const batch = random.pick(
      this.#plan.batches.filter(
        ({ isOpen, commitAsked, cancelAsked }) => isOpen && !commitAsked && !cancelAsked,
      ),
    );
    if (batch === undefined) return;
    const fate = random.weighted(FATES);
    const job = this.#plan.job(batch, fate);
    const ttl = fate === "expired" ? ` ttl=${TTL_SECONDS}` : "";
    const own = fate === "cleared" || fate === "expired" ? `${fate}${batch.name}` : random.pick(WORK);
    const tube = fate === "died" ? random.pick(DEADLY) : fate === "deleted" ? `alone${batch.name}` : own;
    const earlier = this.#plan.batches.slice(0, this.#plan.batches.indexOf(batch));
    const awaited = random.chance(0.1) && fate === "done" ? random.pick(earlier) : undefined;
    const waits = awaited?.isOpen === true ? ` after-any=${awaited.name}` : "";
    this.#put(client, job, tube, `batch=${batch.name}${waits}${ttl}`);
  }

  #putCallback(client: BatchClient): void {
    const random = this.random;
    const batch = random.pick(this.#plan.batches.filter(({ isOpen }) => isOpen));
    if (batch === undefined) return;
    const job = this.#plan.job(batch, undefined, random.chance(0.4));
    this.#put(client, job, random.pick(CALLBACKS), `${job.any ? "after-any" : "after"}=${batch.name}`);
  }

  #put(client: BatchClient, job: PlannedJob, tube: string, options: string): void {
    const { name } = job;
    this.say(`put ${name} into ${tube}: ${options}`);
    client.ask(`put-in-tube ${tube} 0 0 60 ${name.length} ${options}\r\n${name}`, ({ line }) => {
      const id = /^INSERTED (\d+)$/.exec(line)?.[1];
      // It may be committed meanwhile.
      if (id === undefined) assert.match(line, /^BATCH_(COMMITTED|ORDER)$/, `put of ${name}`);
      else {
        job.id = Number(id);
        job.isAnswered = true;
        job.isCertain = true;
      }
    });
  }

  #commit(client: BatchClient, batch: PlannedBatch | undefined): void {
    if (batch?.isOpen !== true) return;
    this.say(`commit-batch ${batch.name}`);
    batch.commitAsked = true;
    client.ask(`commit-batch ${batch.name}`, ({ line }) => {
      assert.match(line, batch.cancelAsked ? /^(COMMITTED|BATCH_CANCELLED)$/ : /^COMMITTED$/);
      batch.isCommitted = true;
    });
  }

  #cancel(client: BatchClient, batch: PlannedBatch | undefined): void {
    if (batch?.isOpen !== true) return;
    this.say(`cancel-batch ${batch.name}`);
    batch.cancelAsked = true;
    client.ask(`cancel-batch ${batch.name}`, ({ line }) => {
      assert.match(line, /^(CANCELLED|BATCH_COMPLETE)$/);
      batch.isCommitted = true;
      batch.isCancelled = line === "CANCELLED";
    });
  }

  #reserve(client: BatchClient): void {
    if (client.held.size > 5) return;
    client.ask("reserve-with-timeout 0", ({ line, body }) => {
      const id = /^RESERVED (\d+)/.exec(line)?.[1];
      if (id === undefined) {
        assert.match(line, /^(TIMED_OUT|DEADLINE_SOON)$/);
        return;
      }
      client.held.set(Number(id), body);
      this.say(`${body} is reserved`);
      this.#plan.delivered(Number(id), body);
    });
  }

  /** Does with a reserved job what it is for. */
  #work(client: BatchClient): void {
    const [id, body] = this.random.pick([...client.held]) ?? [0, ""];
    if (id === 0) return;
    client.held.delete(id);
    const job = this.#jobNamed(body);
    const { fate } = job;
    if (fate === "cancelled") this.#giveBack(client, id, job);
    else if (fate === "died" && !job.hasDied) {
      job.endAsked = true;
      this.say(`${body} dies`);
      client.ask(`release ${id} 0 0`, ({ line }) => {
        assert.equal(line, "RELEASED");
        job.hasDied = true;
      });
    } else if (this.random.chance(0.15)) {
      this.say(`${body} is buried`);
      client.ask(`bury ${id} 0`, ({ line }) => assert.equal(line, "BURIED"));
    } else {
      job.endAsked = true;
      this.say(`${body} is done`);
      client.ask(`delete ${id}`, ({ line }) => {
        assert.equal(line, "DELETED");
        job.isGone = true;
      });
    }
  }

  /** Lets a member go that has to be cancelled: when nothing else can end it any more, now. */
  #giveBack(client: BatchClient, id: number, job: PlannedJob): void {
    const { name, isMarked } = job;
    if (this.#isEnding && !isMarked) {
      client.held.set(id, name);
      this.#cancelJob(client, job);
      return;
    }
    const how = [`release ${id} 0 0`, `bury ${id} 0`, `update-job ${id} tube=${this.random.pick(WORK)}`];
    const command = this.random.pick(how)!;
    this.say(`${name} is given back: ${command}`);
    client.ask(command, ({ line }) => {
      assert.match(line, /^(RELEASED|BURIED|UPDATED)$/);
      job.isGone ||= isMarked;
    });
  }

  get #toCancel(): PlannedJob[] {
    return this.#jobs.filter(({ fate, id, endAsked }) => fate === "cancelled" && id > 0 && !endAsked);
  }

  #cancelJob(client: BatchClient, job: PlannedJob | undefined): void {
    if (job === undefined) return;
    job.endAsked = true;
    this.say(`cancel-job ${job.name}`);
    client.ask(`cancel-job ${job.id} reason=late`, ({ line }) => {
      assert.match(line, /^(CANCELLED|CANCELLING|NOT_FOUND)$/);
      job.isGone ||= line === "CANCELLED";
      job.isMarked ||= line === "CANCELLING";
    });
  }

  #jobNamed(body: string): PlannedJob {
    return this.#jobs.find(({ name }) => name === body)!;
  }

  #move(client: BatchClient): void {
    const among: readonly [string, ...string[]] = this.random.pick([WORK, WORK, CALLBACKS]);
    const [from, to] = [this.random.pick(among), this.random.pick(among)];
    const as = among === WORK && this.random.chance(0.3) ? " as=ready" : "";
    this.say(`move-jobs ${from} ${to}${as}`);
    client.ask(`move-jobs ${from} ${to}${as}`, ({ line }) => assert.match(line, /^MOVED/));
  }

  /** Moves a job that the client holds, perhaps to another shard. */
  #handOn(client: BatchClient, of?: PlannedBatch): void {
    const held = [...client.held].filter(([, body]) => {
      const { fate, batch } = this.#jobNamed(body);
      return fate === "done" && (of === undefined || batch === of);
    });
    const [id, body] = this.random.pick(held) ?? [0, ""];
    if (id === 0) return;
    client.held.delete(id);
    const to = this.random.pick(WORK);
    this.say(`${body} is handed on to ${to}`);
    client.ask(`update-job ${id} tube=${to}`, ({ line }) => assert.equal(line, "UPDATED"));
  }

  /** Cancels a batch while workers hand its members on. */
  #cancelInHop(): void {
    const idle = this.clients.filter(({ isIdle }) => isIdle);
    const batch = this.random.pick(
      idle.flatMap(({ held }) => [...held.values()].map((body) => this.#jobNamed(body).batch)),
    );
    const canceller = this.random.pick(idle);
    if (batch === undefined || canceller === undefined) return;
    const isFirst = this.random.chance(0.5);
    if (isFirst) this.#cancel(canceller, batch);
    for (const client of idle) if (client !== canceller) this.#handOn(client, batch);
    for (let turns = this.random.between(0, 8); turns > 0 && this.server.step(); turns--);
    if (!isFirst) this.#cancel(canceller, batch);
  }

  /** Clears, or deletes, what is there for that. */
  #remove(client: BatchClient): void {
    const job = this.random.pick(
      this.#jobs.filter(
        ({ fate, endAsked, id }) => (fate === "cleared" || fate === "deleted") && !endAsked && id > 0,
      ),
    );
    if (job === undefined) return;
    job.endAsked = true;
    this.say(`${job.name} is ${job.fate}`);
    if (job.fate === "deleted")
      client.ask(`delete ${job.id}`, ({ line }) => assert.match(line, /^(DELETED|NOT_FOUND)$/));
    else {
      for (const each of job.batch.jobs) if (each.fate === "cleared") each.endAsked = true;
      client.ask(`clear-tube cleared${job.batch.name}`, ({ line }) => assert.match(line, /^CLEARED/));
    }
  }

  #inspect(client: BatchClient): void {
    const batch = this.random.pick(this.#plan.batches);
    if (batch === undefined) return;
    client.ask(`inspect-batch ${batch.name}`, ({ line }) =>
      assert.match(line, batch.isOpen ? /^OK/ : /^(OK|NOT_FOUND)/),
    );
  }

  #vanish(client: BatchClient): void {
    this.settle();
    this.say("a client vanishes");
    // That was the only attempt of some.
    for (const body of client.held.values()) this.#jobNamed(body).endAsked = true;
    client.socket.reset();
    this.settle();
    for (const body of client.held.values()) this.#jobNamed(body).isGone ||= this.#jobNamed(body).isMarked;
    const fresh = new BatchClient(this.server.connect());
    this.clients[this.clients.indexOf(client)] = fresh;
    this.watch(fresh);
  }

  // --- the end -----------------------------------------------------------------------------------

  /** Brings everything to its end: no more puts, all batches committed, all work done. */
  async #finish(): Promise<void> {
    this.#isEnding = true;
    this.say("the end");
    this.server.tickMs = 0;
    this.settle();
    for (const batch of this.#plan.batches) this.#endBatch(batch);
    // All that were there to expire do.
    this.server.advance(TTL_SECONDS * 1000 + 1);
    for (const job of this.#jobs) if (job.fate === "expired") job.endAsked = true;
    this.#workOff();
    if (this.random.chance(0.5)) {
      await this.restart();
      this.server.tickMs = 0;
      this.#workOff();
    }
    for (const batch of this.#plan.batches) this.#checkEnd(batch);
  }

  #endBatch(batch: PlannedBatch): void {
    if (!batch.isOpen) {
      this.must(`open-batch ${batch.name}`, /^(OPENED|BATCH_EXISTS)$/);
      batch.isOpen = true;
    }
    for (const { fate, id } of batch.jobs)
      if (fate === "deleted" && id > 0) this.must(`delete ${id}`, /^(DELETED|NOT_FOUND)$/);
    this.must(`clear-tube cleared${batch.name}`, /^CLEARED/);
    this.must(`clear-tube alone${batch.name}`, /^CLEARED/);
    for (const job of batch.jobs)
      if (job.fate === "cancelled" && job.id > 0) {
        this.#cancelJob(this.clients[0]!, job);
        this.settle();
      } else if (job.fate === "deleted" || job.fate === "cleared") job.endAsked = true;
    if (batch.cancelAsked && !batch.isCancelled) this.#cancel(this.clients[0]!, batch);
    else this.#commit(this.clients[0]!, batch);
    this.settle();
  }

  /** Works until nothing is left to do. */
  #workOff(): void {
    for (let hasWorked = true; hasWorked; ) {
      hasWorked = false;
      this.server.advance(1);
      for (const client of this.clients) {
        for (let left = 5; left > 0 && client.held.size < 5; left--) {
          this.#reserve(client);
          this.settle();
        }
        while (client.held.size > 0) {
          hasWorked = true;
          this.#work(client);
          this.settle();
        }
      }
      hasWorked = this.#kickMembers() || hasWorked;
    }
  }

  /** Kicks what workers have buried; returns whether there was any. */
  #kickMembers(): boolean {
    let kicked = 0;
    const client = this.clients[0]!;
    for (const { id, isGone, deliveries } of this.#jobs) {
      if (deliveries === 0 || isGone) continue;
      client.ask(`kick-job ${id}`, ({ line }) => {
        if (line === "KICKED") kicked++;
        else assert.equal(line, "NOT_FOUND");
      });
      this.settle();
    }
    return kicked > 0;
  }

  #checkEnd(batch: PlannedBatch): void {
    const { name, jobs, isCancelled } = batch;
    const text = this.must(`inspect-batch ${name}`, /^OK/);
    const fact = (of: string): string => new RegExp(`^${of}: (.*)$`, "m").exec(text)?.[1] ?? "";
    assert.equal(fact("state"), "complete", `${name} is complete: ${text}`);
    const members = jobs.filter(({ fate }) => fate !== undefined);
    const certain = members.filter(({ isCertain }) => isCertain);
    const [done, failed] = [Number(fact("done")), Number(fact("failed"))];
    const isDone = ({ fate }: PlannedJob): boolean => fate === "done";
    const least = certain.length;
    assert.ok(
      done + failed >= least && done + failed <= members.length,
      `${name} has ${least} members: ${text}`,
    );
    if (!isCancelled) {
      assert.ok(done >= certain.filter(isDone).length, `${name}: members done: ${text}`);
      assert.ok(done <= members.filter(isDone).length, `${name}: members done: ${text}`);
      assert.ok(failed >= certain.length - certain.filter(isDone).length, `${name}: members failed: ${text}`);
    }
    const outcome = isCancelled ? "cancelled" : failed > 0 ? "failure" : "success";
    assert.equal(fact("outcome"), outcome, text);
    assert.equal(fact("waiting"), "0", text);
    for (const job of jobs) if (job.fate === undefined && job.isCertain) this.#checkCallback(job, outcome);
  }

  #checkCallback(job: PlannedJob, outcome: string): void {
    const { name, any, id, isGone, deliveries } = job;
    if (any || outcome === "success") {
      assert.ok(deliveries > 0, `${name} has come`);
      assert.ok(isGone || this.#isEnding, `${name} is done`);
      return;
    }
    assert.equal(deliveries, 0, `${name} never comes: ${outcome}`);
    const text = this.must(`inspect-job ${id}`, /^OK/);
    assert.match(text, /^state: buried$/m, `${name} is buried`);
    const reason = outcome === "cancelled" ? /batch \S+: cancelled/ : /batch \S+: \d+ of \d+ members failed/;
    assert.match(text, reason, `${name} says why`);
  }
}
