// Tests that settings of tubes and attributes of jobs survive a kill, with any number of shards;
// and that `--tubes` applies.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { ExitCode } from "../../src/server/options/operator-error.ts";
import { parseOptions } from "../../src/server/options/options.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { printSeed, seed } from "../support/seeded-property.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { type ServerProcess, startServer } from "../support/server/server-process.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { skipVariant } from "../support/whole.ts";

async function say(server: ServerProcess, lines: readonly [line: string, reply: string][]): Promise<void> {
  const client = await WireClient.connect(server.address);
  for (const [line, reply] of lines) {
    const [command, body] = line.split(" + ");
    const found =
      body === undefined
        ? await client.ask(command!)
        : await client.ask(`${command} ${body.length}\r\n${body}`);
    const text = reply.includes(":") ? found.body?.toString() : found.line;
    assert.ok(text?.includes(reply), `${line}: ${found.line} ${found.body?.toString() ?? ""}, not ${reply}`);
  }
  client.close();
}

describe("after a kill, with -f 0", () => {
  // More shards than before, and fewer.
  const changes = [
    [4, 7],
    [7, 2],
  ];
  for (const [index, [before, after]] of changes.entries())
    it(`settings, keys, attempts and deaths survive a restart from ${before} to ${after} shards`, {
      skip: skipVariant(index, 2),
    }, async (t) => {
      if (!canRun(t, NEEDS.ours)) return;
      const folder = temporaryFolder(t);
      const start = (shards: number): Promise<ServerProcess> =>
        startServer({ kind: "ours", flags: ["-b", folder, "-f", "0", "--shards", String(shards)] });
      const first = await start(before!);
      try {
        await say(first, [
          ["set-tube mail* max-attempts=2 max-jobs=5", "SET"],
          ["set-tube * max-jobs=3", "SET"],
          ["set-tube * max-jobs=", "SET"],
          ["set-tube gone ttl=5", "SET"],
          ["set-tube gone ttl=", "SET"],
          ["put-in-tube mails 0 0 60 + one", "INSERTED 1"],
          ["put-in-tube mails 0 0 60 + two", "INSERTED 2"],
          ["reserve-job 1", "RESERVED 1"],
          ["release 1 0 0", "RELEASED"],
          ["reserve-job 2", "RESERVED 2"],
          ["release 2 0 0", "RELEASED"],
          ["reserve-job 2", "RESERVED 2"],
          ["release 2 0 0", "RELEASED"],
          ["stats-job 2", "state: buried"],
        ]);
        const client = await WireClient.connect(first.address);
        await client.ask("put-in-tube keys 0 0 60 3 unique=k unique-for=1000\r\nabc");
        await client.ask("put-in-tube keys 0 0 60 3 unique=l ttl=1000\r\nabc");
        assert.equal((await client.ask("delete 3")).line, "DELETED");
        assert.equal((await client.ask("put-in-tube mails 0 0 60 4\r\nmove")).line, "INSERTED 5");
        assert.equal((await client.ask("move-jobs mails morgue6 contains=move")).line, "MOVED 1");
        client.close();
      } finally {
        await first.kill();
      }
      const second = await start(after!);
      try {
        await say(second, [
          ["stats-job 5", "tube: morgue6"],
          ["reserve-job 1", "RESERVED 1"],
          ["release 1 0 0", "RELEASED"],
          ["stats-job 1", "state: buried"],
          ["kick-job 2", "KICKED"],
          ["reserve-job 2", "RESERVED 2"],
          ["release 2 0 0", "RELEASED"],
          ["stats-job 2", "state: ready"],
        ]);
        const client = await WireClient.connect(second.address);
        for (const [key, reply] of [
          ["k", "DUPLICATE 3"],
          ["l", "DUPLICATE 4"],
        ])
          assert.equal((await client.ask(`put-in-tube keys 0 0 60 1 unique=${key}\r\nx`)).line, reply);
        assert.equal((await client.ask("delete 4")).line, "DELETED");
        assert.match((await client.ask("put-in-tube keys 0 0 60 1 unique=l\r\nx")).line, /^INSERTED/);
        // Two are there, and five may be.
        const lines: string[] = [];
        for (let i = 0; i < 4; i++)
          lines.push((await client.ask("put-in-tube mails 0 0 60 0\r\n")).line.split(" ")[0]!);
        assert.deepEqual(lines, ["INSERTED", "INSERTED", "INSERTED", "TUBE_FULL"]);
        client.close();
      } finally {
        await second.kill();
      }
    });
});

/** `ROUNDS=200 node --test test/process/restore.test.ts` for more kills. */
const ROUNDS = Number(process.env["ROUNDS"] ?? 2);
const TUBES = ["mails", "morgue6", "mails-dead34"];

/** The ids that list-jobs finds in a tube. */
async function idsIn(client: WireClient, tube: string): Promise<number[]> {
  const ids: number[] = [];
  for (let after = 0; ; ) {
    const { body } = await client.ask(`list-jobs ${tube} after=${after} limit=1000`);
    const text = body!.toString();
    for (const [, id] of text.matchAll(/^- \{"id":(\d+),/gm)) ids.push(Number(id));
    after = Number(/^next: (\d+)$/m.exec(text)![1]);
    if (after === 0) return ids;
  }
}

/**
 * Puts, lets die, moves, redrives and deletes until the server is gone. Notes what was
 * acknowledged.
 */
class Mover {
  readonly put = new Set<number>();
  readonly deleted = new Set<number>();
  /** The job of a delete that is under way: either may be. */
  deleting = 0;
  replies = 0;
  readonly #client: WireClient;
  readonly #random: SeededRandom;
  readonly #enough: number;
  #onEnough: () => void = () => {};
  /** Resolves with the reply that makes them enough. */
  readonly hasEnough: Promise<void> = new Promise((resolve) => {
    this.#onEnough = resolve;
  });

  constructor(client: WireClient, random: SeededRandom, enough: number) {
    this.#client = client;
    this.#random = random;
    this.#enough = enough;
  }

  async #ask(line: string): Promise<string> {
    const reply = await this.#client.ask(line);
    if (++this.replies === this.#enough) this.#onEnough();
    return reply.line;
  }

  async run(): Promise<void> {
    await this.#ask("set-tube mails max-attempts=1 dead-letter=morgue6");
    for (;;) {
      const wish = this.#random.below(10);
      if (wish < 4) await this.#put();
      else if (wish < 7) await this.#letDie();
      else if (wish < 8) await this.#delete();
      else if (wish < 9)
        await this.#ask(`move-jobs morgue6 ${this.#random.pick(["*", "mails-dead34"])} limit=3`);
      else await this.#ask("move-jobs mails-dead34 mails as=ready limit=2");
    }
  }

  async #put(): Promise<void> {
    const key = this.#random.chance(0.5) ? ` unique=k${this.#random.below(40)} unique-for=100` : "";
    const reply = await this.#ask(`put-in-tube mails 0 0 60 3${key}\r\nabc`);
    const id = /^INSERTED (\d+)$/.exec(reply)?.[1];
    if (id !== undefined) this.put.add(Number(id));
  }

  #any(): number {
    return this.#random.pick([...this.put].filter((id) => !this.deleted.has(id))) ?? 0;
  }

  async #letDie(): Promise<void> {
    const id = this.#any();
    await this.#ask(`reserve-job ${id}`);
    await this.#ask(`release ${id} 0 0`);
  }

  async #delete(): Promise<void> {
    this.deleting = this.#any();
    if ((await this.#ask(`delete ${this.deleting}`)) === "DELETED") this.deleted.add(this.deleting);
    this.deleting = 0;
  }
}

/** Jobs that must be alive, and jobs that must not. */
interface Kept {
  readonly alive: Set<number>;
  readonly gone: Set<number>;
}

/**
 * Starts a server on what the last one left, checks that, and kills it in the middle of everything.
 */
async function playRound(folder: string, random: SeededRandom, { alive, gone }: Kept): Promise<void> {
  const server = await startServer({ kind: "ours", flags: ["-b", folder, "-f", "0", "--shards", "3"] });
  const client = await WireClient.connect(server.address);
  const found = await idsOfAll(client);
  expectKept(found, { alive, gone });
  const enough = 100 + random.below(300);
  const mover = new Mover(client, random, enough);
  for (const id of found) mover.put.add(id);
  const ended = mover.run().catch(() => {});
  await Promise.race([mover.hasEnough, ended]);
  await server.kill();
  await ended;
  assert.ok(mover.replies >= enough);
  alive.clear();
  for (const id of mover.put) if (!mover.deleted.has(id) && id !== mover.deleting) alive.add(id);
  for (const id of mover.deleted) gone.add(id);
}

function expectKept(found: readonly number[], { alive, gone }: Kept): void {
  assert.equal(new Set(found).size, found.length, "a job is in one tube");
  for (const id of alive) assert.ok(found.includes(id), `job ${id} is lost`);
  for (const id of gone) assert.ok(!found.includes(id), `job ${id} is back`);
}

describe("kills while jobs die and move, with -f 0", () => {
  it("leave each acknowledged job in one tube", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    printSeed(t);
    const folder = temporaryFolder(t);
    const random = new SeededRandom(seed);
    const kept: Kept = { alive: new Set(), gone: new Set() };
    for (let round = 0; round < ROUNDS; round++) await playRound(folder, random, kept);
    const server = await startServer({ kind: "ours", flags: ["-b", folder, "--shards", "3"] });
    const client = await WireClient.connect(server.address);
    expectKept(await idsOfAll(client), kept);
    assert.ok(kept.alive.size > 10 && kept.gone.size > 0);
    client.close();
    await server.stop();
  });
});

async function idsOfAll(client: WireClient): Promise<number[]> {
  const ids: number[] = [];
  for (const tube of TUBES) ids.push(...(await idsIn(client, tube)));
  return ids;
}

describe("--tubes", () => {
  it("applies at each start, over the log", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const folder = temporaryFolder(t);
    const file = join(temporaryFolder(t), "tubes");
    writeFileSync(file, "# for all\n* max-jobs=1\n\nmails max-jobs=2 max-attempts=3\n");
    const flags = ["-b", folder, "--shards", "3", "--tubes", file];
    for (const set of ["set-tube mails max-jobs=9", ""]) {
      const server = await startServer({ kind: "ours", flags });
      try {
        const client = await WireClient.connect(server.address);
        const puts: string[] = [];
        for (const tube of ["mails", "mails", "mails", "x", "x"])
          puts.push((await client.ask(`put-in-tube ${tube} 0 0 60 0\r\n`)).line.split(" ")[0]!);
        const taken = set === "" ? "TUBE_FULL" : "INSERTED";
        assert.deepEqual(puts, [taken, taken, "TUBE_FULL", taken, "TUBE_FULL"]);
        if (set !== "") assert.equal((await client.ask(set)).line, "SET");
        client.close();
      } finally {
        await server.stop();
      }
    }
  });

  for (const [line, message] of [
    ["mails max-job=1", /line 2: max-job can't be set \(max-attempts, /],
    ["mails max-jobs=x", /line 2: max-jobs=x is not a valid setting: max-jobs=<n>/],
    ["ma*ls max-jobs=1", /line 2: ma\*ls is neither a tube name, a prefix with \*, nor \*/],
    ["mails", /line 2: nothing is set for mails/],
    ["mails ttl=1 ttl=2", /line 2: ttl is set twice/],
  ] as const)
    it(`ends the start with exit code 5 for "${line}"`, (t) => {
      const file = join(temporaryFolder(t), "tubes");
      writeFileSync(file, `a* max-jobs=1\n${line}\n`);
      const exit = parseOptions(["--tubes", file], "runnerbean");
      assert.ok("exitCode" in exit);
      assert.equal(exit.exitCode, ExitCode.Usage);
      assert.match(exit.stderr, message);
    });

  it("names a file that it can't read", (t) => {
    const exit = parseOptions(["--tubes", join(temporaryFolder(t), "none")], "runnerbean");
    assert.ok("exitCode" in exit && exit.exitCode === ExitCode.Usage);
    assert.match(exit.stderr, /the tubes file .*none does not exist \(ENOENT\)/);
  });
});
