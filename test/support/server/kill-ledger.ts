// Mixed load from several clients with a ledger of what was acknowledged, for servers that are
// killed during it.

import { SeededRandom } from "../seeded-random.ts";
import type { Reply, WireClient } from "./wire-client.ts";

type Fate = "ready" | "delayed" | "buried";

interface Entry {
  readonly tube: string;
  readonly body: string;
  /** State of the job after the last acknowledged change. */
  fate: Fate | "deleted";
  pri: number;
  readonly cost: number;
  /** A change was sent and its answer not seen: either state may be found. */
  unsure: boolean;
  /**
   * Changes sent: a released job may be changed by the next client before the answer to the release
   * is seen.
   */
  changes: number;
  /** When its put was answered. */
  readonly bornAtMs: number;
  /** When its last change was answered. */
  changedAtMs: number;
}

/** Changes answered after this moment may be lost; without it, none. */
interface Promised {
  readonly untilMs: number;
}

const ALL: Promised = { untilMs: Number.POSITIVE_INFINITY };
const TUBES = ["alpha", "beta", "gamma", "delta", "epsilon"];
/** Longer than the longest campaign. */
const DELAY_SECONDS = 100_000;
const CHECKED_AT_ONCE = 50;
const BODY_BYTES = [0, 1, 64, 64, 300, 5000, 65535];

export class KillLedger {
  readonly jobs: Map<number, Entry> = new Map();
  /** Answers that no working server gives here. */
  readonly surprises: string[] = [];
  /** Puts that were answered INSERTED. */
  acknowledgedPuts = 0;
  /** When the oldest change was answered that a check has found undone and had to allow. */
  oldestUndoneMs: number = Number.POSITIVE_INFINITY;
  /** Changes that a check has found undone and had to allow. */
  undone = 0;
  /** All ids of acknowledged puts, also of jobs that were lost. */
  readonly #given = new Set<number>();
  /** Ids of jobs that were delayed or buried, for clients that cancel them. */
  readonly #resting: number[] = [];
  #bodies = 0;

  /** Runs random commands on one client until its connection breaks. */
  async work(client: WireClient, seed: number): Promise<void> {
    const random = new SeededRandom(seed);
    const pick = <T>(list: readonly T[]): T => random.pick(list)!;
    try {
      for (const tube of TUBES) await client.ask(`watch ${tube}`);
      for (;;) {
        const die = random.between(0, 9);
        if (die < 5)
          await this.#put(
            client,
            pick(TUBES),
            pick(BODY_BYTES),
            random.between(0, 1999),
            random.between(0, 3) === 0,
            random.chance(0.3) ? random.between(2, 1000) : 1,
          );
        else if (random.chance(0.05)) await this.#cancelOne(client, random);
        else await this.#takeOne(client, random);
      }
    } catch {
      // The server was killed; what was under way is marked as unsure.
    }
  }

  async #put(
    client: WireClient,
    tube: string,
    bytes: number,
    pri: number,
    delayed: boolean,
    cost: number,
  ): Promise<void> {
    const body = `${this.#bodies++} `.padEnd(bytes, "x").slice(0, Math.max(bytes, 12));
    const delay = delayed ? DELAY_SECONDS : 0;
    await client.ask(`use ${tube}`);
    const { line } =
      cost === 1
        ? await client.put(body, { pri, delay })
        : await client.ask(`put-in-tube ${tube} ${pri} ${delay} 60 ${body.length} cost=${cost}\r\n${body}`);
    const id = Number(/^INSERTED (\d+)$/.exec(line)?.[1]);
    if (!(id > 0)) {
      this.surprises.push(`a put was answered ${line}`);
      return;
    }
    if (this.#given.has(id)) this.surprises.push(`the id ${id} was given again`);
    this.#given.add(id);
    this.acknowledgedPuts++;
    const now = performance.now();
    this.jobs.set(id, {
      tube,
      body,
      fate: delayed ? "delayed" : "ready",
      pri,
      cost,
      unsure: false,
      changes: 0,
      bornAtMs: now,
      changedAtMs: now,
    });
    if (delayed) this.#resting.push(id);
  }

  /** Cancels a job that no worker can get. */
  async #cancelOne(client: WireClient, random: SeededRandom): Promise<void> {
    const [id = 0] = this.#resting.splice(random.below(this.#resting.length + 1), 1);
    const entry = this.jobs.get(id);
    if (entry === undefined || entry.unsure || (entry.fate !== "delayed" && entry.fate !== "buried")) return;
    await this.#change(client, entry, `cancel-job ${id}`, "CANCELLED", "deleted", entry.pri);
  }

  async #takeOne(client: WireClient, random: SeededRandom): Promise<void> {
    const { line } = await client.ask("reserve-with-timeout 0");
    const id = Number(/^RESERVED (\d+) /.exec(line)?.[1]);
    const entry = this.jobs.get(id);
    // A job whose put was answered to another client that has not got round to noting it: leave it
    // alone.
    if (entry === undefined) return;
    const pri = random.between(0, 1999);
    const [command, answer, fate]: [string, string, Entry["fate"]] = random.pick([
      [`delete ${id}`, "DELETED", "deleted"],
      [`delete ${id}`, "DELETED", "deleted"],
      [`bury ${id} ${pri}`, "BURIED", "buried"],
      [`release ${id} ${pri} 0`, "RELEASED", "ready"],
      [`release ${id} ${pri} ${DELAY_SECONDS}`, "RELEASED", "delayed"],
      // It stays with this client until the server is killed, and doesn't come back.
      [`cancel-job ${id}`, "CANCELLING", "deleted"],
    ]);
    await this.#change(client, entry, command, answer, fate, pri);
    if (fate === "delayed" || fate === "buried") this.#resting.push(id);
  }

  async #change(
    client: WireClient,
    entry: Entry,
    command: string,
    answer: string,
    fate: Entry["fate"],
    pri: number,
  ): Promise<void> {
    entry.unsure = true;
    const change = ++entry.changes;
    const { line } = await client.ask(command);
    if (line !== answer) this.surprises.push(`${command} was answered ${line}`);
    if (change !== entry.changes) return;
    entry.changedAtMs = performance.now();
    entry.unsure = false;
    entry.fate = fate;
    if (fate !== "deleted") entry.pri = pri;
  }

  /** Compares every acknowledged job with the server's. Returns what is wrong, in words. */
  async check(client: WireClient, promised: Promised = ALL): Promise<string[]> {
    const wrong: string[] = this.surprises.splice(0);
    const ids = [...this.jobs.keys()];
    for (let at = 0; at < ids.length; at += CHECKED_AT_ONCE) {
      const batch = ids.slice(at, at + CHECKED_AT_ONCE);
      client.send(batch.map((id) => `peek ${id}\r\ninspect-job ${id}\r\n`).join(""));
      for (const id of batch) {
        const found = await client.readReply();
        this.#checkOne(id, found, await client.readReply(), wrong, promised);
      }
    }
    return wrong;
  }

  #checkOne(id: number, found: Reply, statsReply: Reply, wrong: string[], promised: Promised): void {
    const entry = this.jobs.get(id)!;
    const isPromised = !entry.unsure && entry.changedAtMs <= promised.untilMs;
    /** What is not as it was answered: wrong if promised, else noted. */
    const undone = (what: string, atMs: number): void => {
      if (atMs <= promised.untilMs) wrong.push(`job ${id} ${what}`);
      else this.#noteUndone(atMs);
    };
    if (found.line === "NOT_FOUND") {
      if (entry.fate !== "deleted" && !entry.unsure) undone(`(${entry.fate}) is lost`, entry.bornAtMs);
      this.jobs.delete(id);
      return;
    }
    if (entry.fate === "deleted") undone("was deleted and is back", entry.changedAtMs);
    if (found.body?.toString("latin1") !== entry.body) wrong.push(`job ${id} has another body`);
    const stats = statsReply.body?.toString("latin1") ?? "";
    const field = (name: string): string => new RegExp(`^${name}: (.*)$`, "m").exec(stats)?.[1] ?? "";
    if (field("tube") !== entry.tube) wrong.push(`job ${id} is in ${field("tube")} instead of ${entry.tube}`);
    const cost = Number(field("cost") || 1);
    if (cost !== entry.cost) wrong.push(`job ${id} costs ${cost} instead of ${entry.cost}`);
    const [state, pri] = [field("state") as Fate, Number(field("pri"))];
    if (isPromised && entry.fate !== "deleted") {
      if (state !== entry.fate) wrong.push(`job ${id} is ${state} instead of ${entry.fate}`);
      if (pri !== entry.pri) wrong.push(`job ${id} has pri ${pri}, not ${entry.pri}`);
    } else if (!entry.unsure && entry.fate !== "deleted" && (state !== entry.fate || pri !== entry.pri))
      this.#noteUndone(entry.changedAtMs);
    entry.fate = state;
    entry.pri = pri;
    entry.unsure = false;
  }

  #noteUndone(atMs: number): void {
    this.undone++;
    this.oldestUndoneMs = Math.min(this.oldestUndoneMs, atMs);
  }

  /** Number of acknowledged jobs that are alive. */
  get alive(): number {
    return [...this.jobs.values()].filter((entry) => entry.fate !== "deleted").length;
  }
}
