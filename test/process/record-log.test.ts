// Tests of what survives a restart, by the table in docs/durability.md: everything that clients can
// see of jobs and settings is the same after a kill, a stop and a compaction, with any number of
// shards; what is documented as lost starts anew.

import assert from "node:assert/strict";
import { it } from "node:test";
import { eventually } from "../support/eventually.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { type ServerProcess, startServer } from "../support/server/server-process.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { overRestarts } from "./restarts.ts";

const SETTINGS =
  "max-attempts=3 backoff=0.5 ttl=5000 expire=bury max-jobs=50 max-reserved=40 burst=7 rate=7/1";

/** Jobs in all states, with all that a job can have. */
const STORY: readonly (readonly [line: string, reply: RegExp])[] = [
  ["name story", /^NAMED/],
  [`set-tube full* ${SETTINGS}`, /^SET/],
  ["set-tube mortal max-attempts=1 dead-letter=morgue", /^SET/],
  ["put-in-tube plain 7 0 60 4\r\none!", /^INSERTED 1/],
  ["put-in-tube plain 3 900 61 4\r\ntwo!", /^INSERTED 2/],
  // Released, buried and kicked.
  ["reserve-job 1", /^RESERVED/],
  [`release 1 9 0 reason=${"%ff".repeat(1024)}`, /^RELEASED/],
  ["reserve-job 1", /^RESERVED/],
  [`bury 1 11 reason=${"x".repeat(1024)}`, /^BURIED/],
  ["kick-job 1", /^KICKED/],
  // Buried in another order than that of ids.
  ["put-in-tube graves 1 0 60 1\r\nx", /^INSERTED 3/],
  ["put-in-tube graves 1 0 60 1\r\nx", /^INSERTED 4/],
  ["put-in-tube graves 1 0 60 1\r\nx", /^INSERTED 5/],
  ["reserve-job 5", /^RESERVED/],
  ["bury 5 1", /^BURIED/],
  ["reserve-job 3", /^RESERVED/],
  ["bury 3 1", /^BURIED/],
  ["reserve-job 4", /^RESERVED/],
  ["bury 4 1", /^BURIED/],
  // All options, and attempts that are used up in part.
  [
    "put-in-tube full-1 5 0 60 4 unique=k unique-for=4000 ttl=3000 group=g weight=4 cost=5 meta=trace:1 meta=tenant:acme\r\nfull",
    /^INSERTED 6/,
  ],
  ["reserve-job 6", /^RESERVED/],
  ["release 6 5 800", /^RELEASED/],
  ["put-in-tube full-1 5 0 60 4 unique=l unique-until=reserve group=h\r\nfull", /^INSERTED 7/],
  // A death on another shard, and one that stays.
  ["put-in-tube mortal 5 0 60 4\r\ndead", /^INSERTED 8/],
  ["reserve-job 8", /^RESERVED/],
  ["release 8 5 0 reason=the%20last%20time", /^RELEASED/],
  ["put-in-tube moved-from 5 100 60 4\r\nmove", /^INSERTED 9/],
  ["move-jobs moved-from moved-to", /^MOVED 1/],
  ["update-job 9 pri=77 ttr=88 ttl=2000", /^UPDATED/],
  ["put-in-tube gone 1 0 60 1 unique=m unique-for=4000\r\nx", /^INSERTED 10/],
  ["delete 10", /^DELETED/],
  [`put-in-tube large 1 0 60 60000\r\n${"large".repeat(12_000)}`, /^INSERTED 11/],
  // Held at the end: it is ready after a restart.
  ["put-in-tube held 1 0 60 1\r\nx", /^INSERTED 12/],
  ["reserve-job 12", /^RESERVED/],
  ["pause-tube plain 1000", /^PAUSED/],
];
const IDS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12];
const TUBES = [
  "plain",
  "graves",
  "full-1",
  "mortal",
  "morgue",
  "moved-to",
  "gone",
  "large",
  "held",
  "full-2",
];

/** Rows that change with time, name a file, or belong to the process. */
const CHANGES = /^(age|time-left|time-left-ms|expires-in|file|holder|worker): /;
/** Rows documented to start over with the server. */
const ANEW =
  /^(next-age|duplicates|rejected|expired|dead|moved-in|moved-out|disconnects|tokens|groups|groups-blocked): /;

function lines(body: Buffer | undefined, without: RegExp): string[] {
  return (body?.toString("latin1") ?? "").split("\n").filter((line) => !without.test(line));
}

/** The value of a line that says a number. */
const numberIn = (body: Buffer | undefined, key: string): number =>
  Number(new RegExp(`^${key}: (.*)$`, "m").exec(body!.toString("latin1"))![1]);

interface Seen {
  /** Everything that must be equal. */
  readonly same: Record<string, readonly string[]>;
  /** Ages in seconds, and how long jobs wait and live. */
  readonly ages: readonly number[];
  readonly left: readonly number[];
}

/** Everything that a client can see of jobs and settings. */
async function look(server: ServerProcess): Promise<Seen> {
  const client = await WireClient.connect(server.address);
  const same: Record<string, readonly string[]> = {};
  const [ages, left]: [number[], number[]] = [[], []];
  for (const id of IDS) {
    const { body } = await client.ask(`inspect-job ${id}`);
    same[`job ${id}`] = lines(body, CHANGES).map((line) => (id === 12 ? ready(line) : withoutAges(line)));
    ages.push(numberIn(body, "age"), ...failureAges(body));
    if (id === 12) continue;
    const expiresIn = numberIn(body, "expires-in");
    left.push(numberIn(body, "time-left-ms"), Number.isNaN(expiresIn) ? 0 : expiresIn);
    same[`body ${id}`] = [(await client.ask(`peek ${id}`)).body!.toString("latin1")];
  }
  for (const tube of TUBES) {
    const { line, body } = await client.ask(`inspect-tube ${tube}`);
    same[`tube ${tube}`] = [line.split(" ")[0]!, ...lines(body, ANEW)];
  }
  for (const [tube, key] of [
    ["full-1", "k"],
    ["full-1", "l"],
    ["gone", "m"],
  ])
    same[`key ${key}`] = [(await client.ask(`put-in-tube ${tube} 0 0 60 0 unique=${key}\r\n`)).line];
  client.close();
  return { same, ages, left };
}

const FAILURE_AGE = /"age":(\d+)/g;
const withoutAges = (line: string): string => line.replace(FAILURE_AGE, '"age":0');
const failureAges = (body: Buffer | undefined): number[] =>
  [...body!.toString("latin1").matchAll(FAILURE_AGE)].map(([, age]) => Number(age));

/** A job that is held is ready after a restart, and its reservation isn't counted. */
function ready(line: string): string {
  if (line === "state: reserved") return "state: ready";
  return /^(reserves|attempts): /.test(line) ? `${line.split(":")[0]}: 0` : line;
}

/** The ids of the buried jobs in the order in which kicks take them. */
async function kickAll(server: ServerProcess): Promise<string[]> {
  const client = await WireClient.connect(server.address);
  await client.ask("use graves");
  const ids: string[] = [];
  for (;;) {
    const { line } = await client.ask("peek-buried");
    if (!line.startsWith("FOUND")) break;
    ids.push(line.split(" ")[1]!);
    assert.equal((await client.ask("kick 1")).line, "KICKED 1");
  }
  client.close();
  return ids;
}

it("a restart keeps and loses what the table says", async (t) => {
  if (!canRun(t, NEEDS.ours)) return;
  const folder = temporaryFolder(t);
  const start = (shards: number): Promise<ServerProcess> =>
    startServer({ kind: "ours", flags: ["-b", folder, "-f", "0", "--shards", String(shards)] });
  const server = await start(4);
  let before: Seen;
  try {
    const client = await WireClient.connect(server.address);
    for (const [line, reply] of STORY) assert.match((await client.ask(line)).line, reply, line.slice(0, 80));
    before = await look(server);
    // The end of a connection would be in the log, so the client closes its own only afterwards.
    await server.kill();
    client.close();
  } finally {
    await server.kill();
  }
  await overRestarts(folder, start, async (server, shards) => {
    const after = await look(server);
    assert.deepEqual(after.same, before.same, `${shards} shards`);
    for (const [index, age] of after.ages.entries()) assert.ok(age >= before.ages[index]!, "ages go on");
    for (const [index, ms] of after.left.entries())
      assert.ok(
        ms <= before.left[index]! && ms > 0 === before.left[index]! > 0,
        "the remaining times keep running",
      );
    const client = await WireClient.connect(server.address);
    const paused = (await client.ask("stats-tube plain")).body;
    assert.equal(numberIn(paused, "pause"), 0, "no tube is paused");
    assert.equal(
      numberIn((await client.ask("inspect-tube full-1")).body, "tokens"),
      7,
      "as many as there may be",
    );
    client.close();
    if (shards === 3) assert.deepEqual(await kickAll(server), ["5", "3", "4"], "the order of burials");
  });
});

it("jobs that are held when the server stops have not failed; those whose client left have", async (t) => {
  if (!canRun(t, NEEDS.ours)) return;
  const folder = temporaryFolder(t);
  const start = (): Promise<ServerProcess> =>
    startServer({ kind: "ours", flags: ["-b", folder, "--shards", "2", "--acceptors", "2"] });
  let server = await start();
  t.after(() => server.kill());
  const put = "put-in-tube held 0 0 60 1\r\nx";
  const [stays, leaves] = [
    await WireClient.connect(server.address),
    await WireClient.connect(server.address),
  ];
  assert.deepEqual((await stays.ask(put)).line, "INSERTED 1");
  assert.deepEqual((await stays.ask(put)).line, "INSERTED 2");
  assert.equal((await leaves.ask("name leaver")).line, "NAMED");
  await leaves.ask("reserve-job 2");
  leaves.close();
  // Reserved at the first moment that it isn't held.
  await eventually(
    "the job is given back",
    async () => (await stays.ask("reserve-job 2")).line !== "NOT_FOUND",
  );
  await stays.ask("reserve-job 1");
  await server.stop();
  server = await start();
  const client = await WireClient.connect(server.address);
  const rows = async (id: number): Promise<string[]> =>
    lines((await client.ask(`inspect-job ${id}`)).body, /^(?!state|reserves|failures)/).map(withoutAges);
  assert.deepEqual(await rows(1), ["state: ready", "reserves: 0", "failures: []"]);
  const failure = { attempt: 1, cause: "disconnected", age: 0, worker: "leaver", reason: "" };
  assert.deepEqual(await rows(2), ["state: ready", "reserves: 1", `failures: ${JSON.stringify([failure])}`]);
  client.close();
});
