// Simulated life of a group from a seed: three nodes with real cores and logs, one shared log,
// clients, and all possible faults, on virtual time.

import { SeededRandom } from "../support/seeded-random.ts";
import { CHECKS, type Check, FaultyLog } from "./faulty-log.ts";
import type { Witness } from "./node-state.ts";
import type { Bug } from "./planted-bugs.ts";
import { SimulatedNode } from "./simulated-node.ts";
import { VirtualTime } from "./virtual-time.ts";

interface GroupOptions {
  seed: number;
  steps?: number;
  check?: Check;
  bug?: Bug;
  /** Takes what happens, line by line. */
  trace?: (line: string) => void;
}

export interface GroupResult {
  acknowledged: number;
  deleted: number;
  leads: number;
  compactions: number;
  purges: number;
  cuts: number;
  tails: number;
  losses: number;
  restarts: number;
}

const NODES = 3;
const STEPS = 10_000;
/** All is well again: how long until one node leads and all others have all. */
const QUIET_MS = 60_000;
/** Waits for every node to have everything: ms for each look, and looks at most. */
const SETTLE_MS = 500;
const SETTLES_MAX = 40;
const TRACE_LINES = 40;

/** Runs one seed; throws an Error that says what was broken. */
export async function simulateGroup(options: GroupOptions): Promise<GroupResult> {
  return new GroupLife(options).run();
}

class GroupLife implements Witness {
  readonly #options: GroupOptions;
  readonly #random: SeededRandom;
  readonly #time = new VirtualTime();
  readonly #log: FaultyLog;
  readonly #nodes: SimulatedNode[] = [];
  readonly #lines: string[] = [];
  /** Ids and the job that each was given to. */
  readonly #given = new Map<number, string>();
  readonly #inserted = new Set<number>();
  /** Jobs whose delete was sent, and those whose delete was answered. */
  readonly #deleting = new Set<number>();
  readonly #deleted = new Set<number>();
  #bodies = 0;
  #leads = 0;
  #servingEpoch = 0;
  #quiet = false;
  #losses = 0;
  #mustLead: SimulatedNode | undefined;

  constructor(options: GroupOptions) {
    this.#options = options;
    this.#random = new SeededRandom(options.seed);
    const check = options.check ?? this.#random.pick(CHECKS);
    this.#log = new FaultyLog(this.#time, this.#random, check);
    for (let number = 1; number <= NODES; number++)
      this.#nodes.push(
        new SimulatedNode(
          {
            time: this.#time,
            random: this.#random,
            log: this.#log,
            witness: this,
            bug: options.bug,
            nodes: this.#nodes,
          },
          number,
        ),
      );
  }

  async run(): Promise<GroupResult> {
    const time = this.#time;
    for (const node of this.#nodes) await node.start();
    this.#load();
    this.#faults();
    for (let steps = this.#options.steps ?? STEPS; steps > 0; steps--) await time.step();
    await this.#calm();
    let until = time.nowMs + QUIET_MS;
    while (await time.step(until)) {}
    // One may have begun anew a moment ago, because the log was purged under it.
    for (let left = SETTLES_MAX; left > 0 && !this.#nodes.every(({ isSettled }) => isSettled); left--) {
      until += SETTLE_MS;
      while (await time.step(until)) {}
    }
    await this.#check();
    const sum = (of: (node: SimulatedNode) => number): number =>
      this.#nodes.reduce((all, node) => all + of(node), 0);
    return {
      acknowledged: this.#inserted.size,
      deleted: this.#deleted.size,
      leads: this.#leads,
      compactions: sum((node) => node.compactions),
      purges: this.#log.purges,
      cuts: sum((node) => node.cuts),
      tails: sum((node) => node.tails),
      losses: this.#losses,
      restarts: sum((node) => node.restarts),
    };
  }

  #load(): void {
    if (this.#quiet) return;
    for (const node of this.#nodes) node.leading.command();
    this.#time.after(5 + this.#random.below(60), () => this.#load());
  }

  #faults(): void {
    const random = this.#random;
    if (this.#quiet) return;
    this.#time.after(1500 + random.below(9000), () => this.#faults());
    const leader = this.#nodes.find((node) => node.role === "leads");
    const victim = (random.chance(0.5) ? leader : undefined) ?? random.pick(this.#nodes)!;
    switch (random.below(5)) {
      case 0:
      case 1:
        if (victim.isUp) {
          if (random.chance(0.5)) victim.crash();
          else victim.stop();
        }
        this.#later(9000, () => (victim.isUp ? undefined : victim.start()));
        break;
      case 2:
      case 3:
        victim.connection.cutOff = true;
        this.log(`node ${victim.number} is cut off`);
        this.#later(9000, () => {
          victim.connection.cutOff = false;
        });
        break;
      default:
        if (random.chance(0.3)) this.#cutPower();
        else this.#leaveLogAway();
    }
  }

  #leaveLogAway(): void {
    this.#log.isUp = false;
    this.log("the shared log is away");
    this.#later(5000, () => {
      this.#log.isUp = true;
    });
  }

  /**
   * Cuts the power of all machines. The log servers lose their last messages; the old primary has
   * everything on disk and starts first.
   */
  #cutPower(): void {
    const [last] = this.#nodes.toSorted((a, b) => b.epoch - a.epoch) as [SimulatedNode];
    if ((last.role !== "leads" && last.role !== "opens") || this.#log.epoch > last.epoch) return;
    for (const node of this.#nodes) if (node.isUp) node.stop();
    const lost = this.#log.loseLast(1 + this.#random.below(8), last.firstSegment);
    this.log(`the power is cut; the shared log has lost ${lost} messages, node ${last.number} led`);
    this.#losses++;
    this.#mustLead = last;
    for (const node of this.#nodes) this.#later(3000, () => (node.isUp ? undefined : node.start()));
  }

  mayStart(node: SimulatedNode): boolean {
    return this.#mustLead === undefined || this.#mustLead === node;
  }

  #later(msMax: number, happen: () => void | Promise<void>): void {
    this.#time.after(300 + this.#random.below(msMax), happen);
  }

  async #calm(): Promise<void> {
    this.log("all is well from here on");
    this.#quiet = this.#log.quiet = this.#log.isUp = true;
    for (const node of this.#nodes) {
      node.connection.cutOff = false;
      if (!node.isUp) await node.start();
    }
  }

  async #check(): Promise<void> {
    const leaders = this.#nodes.filter((node) => node.role === "leads");
    const roles = this.#nodes.map(({ role, epoch }) => `${role} ${epoch}`).join(", ");
    if (leaders.length !== 1) this.fail(`${leaders.length} nodes lead at the end (${roles})`);
    const [leader] = leaders as [SimulatedNode];
    this.#compare(leader.jobs, `the memory of node ${leader.number}`);
    for (const node of this.#nodes) {
      const jobs = await node.jobsOnDisk();
      this.#compare(jobs, `the disk of node ${node.number} (${node.role})`);
      const [ours, theirs] = [sorted(jobs), sorted(leader.jobs)];
      if (ours !== theirs)
        this.fail(`the disk of node ${node.number} (${node.role}) is not what the leader has`);
    }
  }

  #compare(jobs: ReadonlyMap<number, string>, where: string): void {
    for (const id of this.#inserted) {
      if (this.#deleting.has(id)) continue;
      if (jobs.get(id) !== this.#given.get(id))
        this.fail(`job ${id} was acknowledged and is not in ${where}`);
    }
    for (const id of this.#deleted)
      if (jobs.has(id)) this.fail(`job ${id} was deleted and is back in ${where}`);
  }

  // --- witness -----------------------------------------------------------------------------------

  log(what: string): void {
    const line = `${Math.round(this.#time.nowMs)} ${what}`;
    this.#options.trace?.(line);
    this.#lines.push(line);
    if (this.#lines.length > TRACE_LINES) this.#lines.shift();
  }

  fail(what: string): never {
    const { seed } = this.#options;
    throw new Error(`seed ${seed}, check ${this.#log.check}: ${what}\n${this.#lines.join("\n")}`);
  }

  nextBody(): number {
    return ++this.#bodies;
  }

  put(_node: SimulatedNode, id: number, body: string): void {
    if (this.#given.has(id)) this.fail(`id ${id} is given to another job`);
    this.#given.set(id, body);
  }

  deleting(id: number): void {
    this.#deleting.add(id);
  }

  inserted(id: number): void {
    this.#inserted.add(id);
  }

  deleted(id: number): void {
    this.#deleted.add(id);
  }

  leads(node: SimulatedNode, epoch: number): void {
    this.#leads++;
    if (node === this.#mustLead) this.#mustLead = undefined;
    this.log(`node ${node.number} leads epoch ${epoch}`);
  }

  serves(node: SimulatedNode, epoch: number): void {
    if (epoch < this.#servingEpoch)
      this.fail(`node ${node.number} serves in epoch ${epoch} after epoch ${this.#servingEpoch} has`);
    this.#servingEpoch = epoch;
  }
}

const sorted = (jobs: ReadonlyMap<number, string>): string =>
  JSON.stringify([...jobs].sort(([a], [b]) => a - b));
