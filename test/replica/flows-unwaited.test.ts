// Tests of batches and schedules in a group whose replies wait for nothing: a fail-over loses the
// end of the log, and what is left has to be consistent.
//
// FAILOVERS=50 node --test test/replica/flows-unwaited.test.ts for long runs.

import assert from "node:assert/strict";
import { it, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { eventually } from "../support/eventually.ts";
import { printSeed, seed } from "../support/seeded-property.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { missingNats } from "../support/server/nats-cluster.ts";
import { HERE, ServerGroup } from "../support/server/server-group.ts";
import type { WireClient } from "../support/server/wire-client.ts";
import { inWhole } from "../support/whole.ts";

const FAILOVERS = Number(process.env["FAILOVERS"] ?? inWhole(5, 1));
/** The flows of a round; half of them change while the shared log stands still. */
const BATCHES = 16;
const MEMBERS_MAX = 6;
const TUBES = ["a", "b", "c", "d", "e", "f"] as const;
const SCHEDULES = ["x", "y", "z"] as const;
/** The log server stands still for so long, and at most for less than a lease. */
const STILL_MS = 600;
const STILL_MS_MAX = 1500;

async function say(client: WireClient, line: string): Promise<string> {
  const { line: reply, body } = await client.ask(line);
  return body === undefined ? reply : `${body}`;
}

/** Puts a batch with members and two callbacks, and commits it, perhaps. Returns its jobs. */
async function putBatch(client: WireClient, name: string, random: SeededRandom): Promise<string[]> {
  assert.equal(await say(client, `open-batch ${name} keep=100000`), "OPENED");
  const lines: string[] = [];
  for (let n = random.between(0, MEMBERS_MAX); n > 0; n--) lines.push(`batch=${name}\r\nm ${name}`);
  for (const after of ["after", "after-any"]) lines.push(`${after}=${name}\r\nc ${name} ${after}`);
  const jobs: string[] = [];
  for (const line of lines) {
    const [options, body] = line.split("\r\n") as [string, string];
    const put = `put-in-tube ${random.pick(TUBES)} 0 0 600 ${body.length} ${options}\r\n${body}`;
    jobs.push(/^INSERTED (\d+)$/.exec(await say(client, put))?.[1] ?? assert.fail(put));
  }
  if (random.chance(0.7)) assert.equal(await say(client, `commit-batch ${name}`), "COMMITTED");
  return jobs;
}

async function setSchedules(client: WireClient, random: SeededRandom): Promise<void> {
  for (const name of SCHEDULES) {
    const line = `set-schedule ${name} ${random.pick(TUBES)} 0 0 600 4 every=1 missed=all\r\ntick`;
    assert.equal(await say(client, line), "SET");
  }
}

/** Returns a number of a report on a batch, or undefined if the batch isn't there. */
function fieldOf(report: string, name: string): number | undefined {
  const found = new RegExp(`^${name}: (\\d+)$`, "m").exec(report);
  return found === null ? undefined : Number(found[1]);
}

/** What one primary has, from the moment when it began to serve. */
class History {
  readonly #client: WireClient;
  readonly #members = new Map<string, number>();
  readonly #callbacks = new Set<string>();
  readonly #ticks = new Set<string>();

  constructor(client: WireClient) {
    this.#client = client;
  }

  /** Ends all that is there, and checks that each part of it fits to the others. */
  async end(names: readonly string[]): Promise<{ batches: number; callbacks: number; ticks: number }> {
    const left = new Map<string, number>();
    for (const name of names) {
      const report = await say(this.#client, `inspect-batch ${name}`);
      const open = fieldOf(report, "open");
      if (open === undefined) {
        assert.equal(report, "NOT_FOUND");
        continue;
      }
      const ended = fieldOf(report, "done")! + fieldOf(report, "failed")!;
      assert.equal(fieldOf(report, "members"), open + ended, report);
      left.set(name, open);
      if (/^state: open$/m.test(report))
        assert.equal(await say(this.#client, `commit-batch ${name}`), "COMMITTED");
    }
    for (const tube of TUBES) await this.#client.ask(`watch ${tube}`);
    await eventually("all batches are complete", async () => {
      await this.#work();
      for (const name of left.keys()) {
        const report = await say(this.#client, `inspect-batch ${name}`);
        if (!/^state: complete$/m.test(report) || fieldOf(report, "waiting") !== 0) return false;
      }
      return true;
    });
    await this.#work();
    for (const [name, open] of left)
      assert.equal(this.#members.get(name) ?? 0, open, `${name} has the open members that it counts`);
    const list = await say(this.#client, "list-schedules");
    for (const name of SCHEDULES)
      assert.ok((list.match(new RegExp(`"name":"${name}"`, "g")) ?? []).length <= 1, list);
    return { batches: left.size, callbacks: this.#callbacks.size, ticks: this.#ticks.size };
  }

  /** Deletes all jobs that are ready. */
  async #work(): Promise<void> {
    for (;;) {
      const { line, body } = await this.#client.ask("reserve-with-timeout 0");
      const id = /^RESERVED (\d+)/.exec(line)?.[1];
      if (id === undefined) {
        assert.equal(line, "TIMED_OUT");
        return;
      }
      await this.#took(id, `${body}`);
      assert.equal(await say(this.#client, `delete ${id}`), "DELETED");
    }
  }

  async #took(id: string, body: string): Promise<void> {
    const [kind, name = ""] = body.split(" ");
    if (kind === "m") this.#members.set(name, (this.#members.get(name) ?? 0) + 1);
    else if (kind === "c") {
      assert.ok(!this.#callbacks.has(body), `${body} comes once`);
      this.#callbacks.add(body);
      assert.match(await say(this.#client, `inspect-batch ${name}`), /^state: complete$/m, body);
    } else if (kind === "tick") {
      const [tick] = /"schedule:[^"]*"|schedule:\S+/.exec(await say(this.#client, `inspect-job ${id}`)) ?? [];
      assert.ok(tick !== undefined && !this.#ticks.has(tick), `${tick} comes once`);
      this.#ticks.add(tick);
    }
  }
}

/** Changes flows and loses the primary, while the shared log doesn't take all of it any more. */
async function loseTheEnd(
  group: ServerGroup,
  client: WireClient,
  names: string[],
  random: SeededRandom,
): Promise<void> {
  const jobs: string[] = [];
  const open = async (): Promise<void> => {
    const name = `b${names.length}`;
    names.push(name);
    jobs.push(...(await putBatch(client, name, random)));
  };
  await setSchedules(client, random);
  for (let n = 0; n < BATCHES / 2; n++) await open();
  const primary = await group.primary();
  const acts = [
    open,
    () => say(client, `delete ${random.pick(jobs)}`),
    () => say(client, `delete ${random.pick(jobs)}`),
    () => say(client, `${random.pick(["commit", "cancel"])}-batch ${random.pick(names)}`),
    () => say(client, `move-jobs ${random.pick(TUBES)} ${random.pick(TUBES)} limit=5`),
    () => (random.chance(0.3) ? setSchedules(client, random) : undefined),
  ];
  let actsLeft = random.below((acts.length * BATCHES) / 2);
  const { promise: isLate, resolve: beLate } = Promise.withResolvers<void>();
  const acting = (async () => {
    while (names.length % BATCHES !== 0) {
      for (const act of acts) {
        if (actsLeft-- === 0) {
          group.cluster.signal(0, "SIGSTOP");
          setTimeout(beLate, STILL_MS_MAX);
        }
        await act();
      }
      await sleep(STILL_MS / BATCHES);
    }
  })();
  // Without its lease, the primary would answer no more.
  await Promise.race([acting, isLate]);
  primary.signal("SIGKILL");
  await acting.catch((error: unknown) => {
    if (error instanceof assert.AssertionError) throw error;
  });
  client.close();
  group.cluster.signal(0, "SIGCONT");
}

it(`flows are consistent over ${FAILOVERS} fail-overs when replies wait for nothing`, {
  skip: missingNats() ?? false,
}, async (t: TestContext) => {
  printSeed(t);
  const random = new SeededRandom(seed);
  const group = await ServerGroup.start(t, ["-f", "50", "--replicate-wait", "nothing"], 1, undefined, [
    { ...HERE, flags: ["--shards", "4"] },
    { ...HERE, flags: ["--shards", "3"] },
  ]);
  const names: string[] = [];
  for (let round = 1; round <= FAILOVERS; round++) {
    await group.caughtUp();
    await loseTheEnd(group, await group.serving(), names, random);
    const client = await group.serving();
    const { batches, callbacks, ticks } = await new History(client).end(names);
    t.diagnostic(`${names.length} batches, ${batches} left; ${callbacks} callbacks and ${ticks} ticks`);
    client.close();
  }
  const odd = group.servers
    .flatMap(({ exits }) => exits)
    .filter((exit) => ![0, 75, "SIGKILL"].includes(exit));
  assert.deepEqual(odd, [], group.servers.map(({ output }) => output.slice(-3000)).join("\n---\n"));
});
