// Tests of what each method of the client sends, with every option that it takes, and of what it
// makes of the reply.

import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { describe, it, type TestContext } from "node:test";
import {
  Closed,
  type ConnectOptions,
  connect,
  NotFound,
  NotSupported,
  OutOfMemory,
  ProtocolError,
  type PutOptions,
  type Queue,
} from "../../src/client/client.ts";
import { eventually } from "../support/eventually.ts";
import { type ScriptedServer, scriptedServer } from "./scripted-server.ts";

type TextQueue = Queue<Uint8Array, Uint8Array | string>;

const ALL = [
  ..."put-in-tube update-job inspect-job list-jobs clear-tube move-jobs set-tube inspect-tube".split(" "),
  ..."set-schedule delete-schedule pause-schedule resume-schedule run-schedule inspect-schedule".split(" "),
  ..."list-schedules open-batch commit-batch cancel-batch inspect-batch list-batches".split(" "),
  ..."reserve-batch reserve-order touch-all delete-batch cancel-job name origins".split(" "),
];
const BODY = "BODY";

const body = (text: string): string => `${text.length}\r\n${text}\r\n`;
const ok = (text: string): string => `OK ${body(text)}`;
const report = (...rows: string[]): string => ok(`---\n${rows.map((row) => `${row}\n`).join("")}`);

const REPLIES: Readonly<Record<string, string>> = {
  ...{ use: "USING t\r\n", name: "NAMED\r\n", kick: "KICKED 4\r\n", "kick-job": "KICKED\r\n" },
  ...{ delete: "DELETED\r\n", release: "RELEASED\r\n", bury: "BURIED\r\n", touch: "TOUCHED\r\n" },
  ...{ "pause-tube": "PAUSED\r\n", "update-job": "UPDATED\r\n", "set-tube": "SET\r\n" },
  ...{ "clear-tube": "CLEARED 5\r\n", "move-jobs": "MOVED 6\r\n", "touch-all": "TOUCHED_ALL 1\r\n" },
  ...{ "delete-schedule": "DELETED\r\n", "pause-schedule": "PAUSED\r\n", "resume-schedule": "RESUMED\r\n" },
  ...{ "run-schedule": "INSERTED 8\r\n", "open-batch": "OPENED\r\n", "commit-batch": "COMMITTED\r\n" },
  ...{ "cancel-batch": "CANCELLED\r\n", watch: "WATCHING 2\r\n", ignore: "WATCHING 1\r\n" },
  ...{ "reserve-order": "SET\r\n", "delete-batch": "DELETED_BATCH 1 1 9\r\n", peek: `FOUND 9 ${body("y")}` },
  ...{ "peek-ready": `FOUND 1 ${body("r")}`, "peek-delayed": `FOUND 2 ${body("d")}` },
  ...{ "peek-buried": "NOT_FOUND\r\n", "list-tubes": report("- default", '- "12"') },
  ...{ "stats-job": report("id: 9", "tube: 12", "state: ready", "pri: 77", "ttr: 60") },
  ...{ "stats-tube": report('name: "12"', "total-jobs: 3"), stats: report("current-jobs-ready: 7") },
  ...{ "inspect-tube": report("max-jobs: 5", "dead-letter: none") },
  "inspect-job": report(
    "id: 9",
    "attempts: 2",
    "tube: none",
    "group: none",
    'unique: "a b"',
    'meta: ["n:v","o:w:x"]',
    'failures: [{"attempt":1,"cause":"buried","age":3,"worker":"w","reason":"\\u00c3\\u00a4"}]',
  ),
  "inspect-batch": report('name: "b"', "number: 4", "state: open", "members: 3", "forgets-in: 0"),
  "reserve-batch": `RESERVED_BATCH 1\r\nRESERVED 9 1 t meta=n:v\r\nx\r\n`,
  "reserve-job": `RESERVED 9 ${body("x")}`,
};

/** A server with all extensions, or with some, that answers everything as if all was well. */
async function serverFor(
  t: TestContext,
  extensions: readonly string[] = ALL,
  replies: Readonly<Record<string, string | undefined>> = {},
): Promise<ScriptedServer> {
  let putting = "";
  return await scriptedServer(t, (line) => {
    const [verb = ""] = line.split(" ");
    if (verb === "extensions")
      return extensions.length === 0
        ? "UNKNOWN_COMMAND\r\n"
        : report(...extensions.map((each) => `${each}: 1`));
    if (/^(?:put|put-in-tube|set-schedule)$/.test(verb)) {
      putting = verb;
      return undefined;
    }
    if (line === BODY) return replies[putting] ?? (putting === "set-schedule" ? "SET\r\n" : "INSERTED 7\r\n");
    return verb in replies ? replies[verb] : REPLIES[verb];
  });
}

async function queueFor(
  t: TestContext,
  server: ScriptedServer,
  options: ConnectOptions = {},
): Promise<TextQueue> {
  const queue = await connect(server.address, { name: "n", tracing: false, ...options });
  t.after(() => queue.close());
  return queue;
}

const AT_FIRST = ["extensions", "name n"];

/** Returns what was sent since the greetings, and no bodies. */
const sentTo = ({ lines }: ScriptedServer): string[] =>
  lines.filter((line) => !AT_FIRST.includes(line) && line !== BODY);

async function allOf<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

const FILTER = { state: ["ready", "buried"], older: 2, contains: "a b", group: "g" } as const;
const FILTER_TEXT = "state=ready,buried older=2 contains=a%20b group=g";

type Case = readonly [what: string, call: (queue: TextQueue) => unknown, lines: string[], result?: unknown];

const PUT: PutOptions = {
  ...{ pri: 1, delay: 2.5, ttr: 3, unique: "u", uniqueFor: 4, uniqueUntil: "reserve" },
  ...{ onDuplicate: "debounce", debounceMax: 5, group: "g", weight: 6, cost: 9, ttl: 7, batch: "b" },
  ...{ after: "c", afterAny: "d", meta: { n: "v", o: "w" } },
};
const PUT_TEXT =
  "unique=u unique-for=4 unique-until=reserve on-duplicate=debounce debounce-max=5 group=g weight=6 cost=9 ttl=7 " +
  "batch=b after=c after-any=d meta=n:v meta=o:w";
const INSERTED = { id: 7, duplicate: false, outcome: "inserted" };

const CASES: readonly Case[] = [
  ["a put", (queue) => queue.put("t", BODY), ["put-in-tube t 1024 0 60 4"], INSERTED],
  [
    "a put with all options",
    (queue) => queue.put("t", BODY, PUT),
    [`put-in-tube t 1 2.5 3 4 ${PUT_TEXT}`],
    INSERTED,
  ],
  [
    "many puts",
    (queue) => queue.putMany("t", [BODY, BODY], (_, index) => ({ pri: index, ttl: 9 })),
    ["put-in-tube t 0 0 60 4 ttl=9", "put-in-tube t 1 0 60 4 ttl=9"],
    { inserted: 2, duplicates: 0 },
  ],
  ["stats", (queue) => queue.stats(), ["stats"], { currentJobsReady: 7 }],
  ["the tubes", (queue) => queue.tubes(), ["list-tubes"], ["default", "12"]],
  ["a tube's stats", (queue) => queue.tube("12").stats(), ["stats-tube 12"], { name: "12", totalJobs: 3 }],
  [
    "a tube's report",
    (queue) => queue.tube("t").inspect(),
    ["inspect-tube t"],
    { maxJobs: 5, deadLetter: "none" },
  ],
  ["a pause", (queue) => queue.tube("t").pause(1.2), ["pause-tube t 2"]],
  ["a kick", (queue) => queue.tube("t").kick(3), ["use t", "kick 3"], 4],
  [
    "a tube's next jobs",
    async (queue) => {
      const peeks = (["ready", "delayed", "buried"] as const).map((state) => queue.tube("t").peek(state));
      return (await Promise.all(peeks)).map((job) => job && [job.id, Buffer.from(job.body).toString()]);
    },
    ["use t", "peek-ready", "peek-delayed", "peek-buried"],
    [[1, "r"], [2, "d"], undefined],
  ],
  [
    "all settings of a tube",
    (queue) =>
      queue.tube("m-*").set({
        ...{ maxAttempts: 1, backoff: 2, backoffMax: 3, ttl: 4, maxJobs: 5, maxBytes: 6, maxReserved: 7 },
        ...{
          burst: 8,
          groupMaxReserved: 9,
          groupRate: "7/2",
          maxGroups: null,
          deadLetter: "d",
          expire: "bury",
          rate: "5/1",
        },
      }),
    [
      "set-tube m-* max-attempts=1 backoff=2 backoff-max=3 ttl=4 max-jobs=5 max-bytes=6 max-reserved=7 " +
        "burst=8 group-max-reserved=9 group-rate=7/2 max-groups= dead-letter=d expire=bury rate=5/1",
    ],
  ],
  [
    "a clearance",
    (queue) => queue.tube("t").clear({ ...FILTER, limit: 3 }),
    [`clear-tube t ${FILTER_TEXT} limit=3`],
    5,
  ],
  [
    "a move",
    (queue) => queue.tube("t").move("u", { ...FILTER, limit: 3, as: "ready" }),
    [`move-jobs t u ${FILTER_TEXT} limit=3 as=ready`],
    6,
  ],
  [
    "a redrive",
    (queue) => queue.tube("t").redrive({ ...FILTER, limit: 3 }),
    [`move-jobs t * ${FILTER_TEXT} limit=3`],
    6,
  ],
  ["a job's end", (queue) => queue.job(9).delete(), ["delete 9"]],
  ["a job's kick", (queue) => queue.job(9).kick(), ["kick-job 9"]],
  ["a job's body", async (queue) => Buffer.from(await queue.job(9).peek()).toString(), ["peek 9"], "y"],
  [
    "a job's stats",
    (queue) => queue.job(9).stats(),
    ["stats-job 9"],
    { id: 9, tube: "12", state: "ready", pri: 77, ttr: 60 },
  ],
  ["a job's attempts", (queue) => queue.job(9).attempts(), ["inspect-job 9"], 2],
  [
    "a job's last failure",
    (queue) => queue.job(9).lastError(),
    ["inspect-job 9"],
    { attempt: 1, cause: "buried", age: 3, worker: "w", reason: "ä" },
  ],
  [
    "an update of all that can be updated",
    (queue) => queue.job(9).update({ pri: 1, delay: 2.5, ttr: 3, ttl: 4, tube: "u" }),
    ["update-job 9 pri=1 delay=2.5 ttr=3 ttl=4 tube=u"],
  ],
  ["the end of many jobs", (queue) => queue.deleteMany([8, 9]), ["delete-batch 8 9"], [9]],
  [
    "a reserve of one job",
    async (queue) => {
      const { id, meta, bytes } = await queue.reserveJob(9);
      return [id, meta, Buffer.from(bytes).toString()];
    },
    ["reserve-job 9", "inspect-job 9"],
    [9, { n: "v", o: "w:x" }, "x"],
  ],
  [
    "a schedule with all options",
    (queue) =>
      queue.schedule("s").set("t", BODY, {
        ...{ cron: " 0 3  * * * ", tz: "UTC", missed: "all", pri: 1, delay: 2.5, ttr: 3, ttl: 4 },
        ...{ group: "g", weight: 5, meta: { n: "v" } },
      }),
    ["set-schedule s t 1 2.5 3 4 cron=0_3_*_*_* tz=UTC missed=all ttl=4 group=g weight=5 meta=n:v"],
  ],
  [
    "a schedule by an interval",
    (queue) => queue.schedule("ä").set("t", BODY, { every: 1.5 }),
    ["set-schedule \u00c3\u00a4 t 1024 0 60 4 every=1.5"],
  ],
  ["a schedule's end", (queue) => queue.schedule("s").delete(), ["delete-schedule s"]],
  ["a schedule's pause", (queue) => queue.schedule("s").pause(), ["pause-schedule s"]],
  ["a schedule's resumption", (queue) => queue.schedule("s").resume(), ["resume-schedule s"]],
  ["a schedule's run", (queue) => queue.schedule("s").run(), ["run-schedule s"], 8],
  ["a batch", (queue) => queue.batch("b").open(), ["open-batch b"]],
  ["a batch that is kept", (queue) => queue.batch("b").open({ keep: 0 }), ["open-batch b keep=0"]],
  [
    "a put of a batch",
    (queue) => queue.batch("b").put("t", BODY, { pri: 2, group: "g" }),
    ["put-in-tube t 2 0 60 4 group=g batch=b"],
    INSERTED,
  ],
  ["a batch's commit", (queue) => queue.batch("b").commit(), ["commit-batch b"]],
  ["a batch's cancellation", (queue) => queue.batch("b").cancel(), ["cancel-batch b"]],
  [
    "a batch's report",
    (queue) => queue.batch("b").inspect(),
    ["inspect-batch b"],
    { name: "b", number: 4, state: "open", members: 3, forgetsIn: 0 },
  ],
];

describe("the client sends, and reads the reply to,", { concurrency: true }, () => {
  for (const [what, call, lines, result] of CASES) {
    it(what, async (t) => {
      const server = await serverFor(t);
      const queue = await queueFor(t, server);
      assert.deepEqual(await call(queue), result);
      assert.deepEqual(sentTo(server), lines);
    });
  }

  it("a put whose key another job has", async (t) => {
    for (const outcome of ["duplicate", "kept", "replaced", "escalated", "debounced"]) {
      const server = await serverFor(t, ALL, { "put-in-tube": `${outcome.toUpperCase()} 5\r\n` });
      const queue = await queueFor(t, server);
      assert.deepEqual(await queue.put("t", BODY), { id: 5, duplicate: true, outcome });
      assert.deepEqual(await queue.putMany("t", [BODY]), { inserted: 0, duplicates: 1 });
    }
  });

  it("says whether a cancelled job is gone, and takes no other reply for that", async (t) => {
    const replies = { "cancel-job": "CANCELLED\r\n" };
    const server = await serverFor(t, ALL, replies);
    const queue = await queueFor(t, server);
    const cancel = (): Promise<boolean> => queue.job(9).cancel({ reason: "ä %" });
    assert.equal(await cancel(), true);
    assert.match(sentTo(server).join(), /^cancel-job 9 reason=\u00c3\u00a4%20%25$/);
    replies["cancel-job"] = "CANCELLING\r\n";
    assert.equal(await cancel(), false);
    for (const [other, Class] of [
      ["NOT_FOUND", NotFound],
      ["OUT_OF_MEMORY", OutOfMemory],
      ["UNKNOWN_COMMAND", NotSupported],
      ["DELETED", ProtocolError],
      ["CANCEL", ProtocolError],
    ] as const) {
      replies["cancel-job"] = `${other}\r\n`;
      await assert.rejects(cancel(), Class, other);
    }
  });

  it("lists, page by page", async (t) => {
    const pages: Readonly<Record<string, readonly [string, string]>> = {
      "list-jobs t state=ready show=3 limit=1000": [
        ' after=0|next: 9|jobs:|- {"id":9,"state":"ready","time-left":4,"progress":7,"note":"\\u00c3\\u00a4","cancelled":"","body":"\\u00ff"}',
        ' after=9|next: 0|jobs:|- {"id":10,"state":"ready"}',
      ],
      "list-batches": [
        ' after=0 limit=1000|next: 4|batches:|- {name: "12", number: 4, state: open, outcome: none}',
        " after=4 limit=1000|next: 0|batches:|- {name: c, number: 5, state: complete, outcome: failure}",
      ],
      "list-schedules tube=t limit=1000": [
        '|next: "s"|schedules:|- {"name":"s","tube":"t","every":2,"tz":"UTC","missed":"once","paused":true}',
        ' after=s|next: ""|schedules:|- {"name":"u","tube":"t","cron":"@daily","next":"2026-01-01T00:00:00.000Z","fired":3}',
      ],
    };
    const known = new Map(
      Object.entries(pages).flatMap(([command, both]) =>
        both.map((page): [string, string] => {
          const [more = "", ...rows] = page.split("|");
          return [`${command}${more}`, report(...rows)];
        }),
      ),
    );
    const lists = await scriptedServer(t, (line) =>
      line === "extensions"
        ? report(...ALL.map((each) => `${each}: 1`))
        : (known.get(line) ?? (line === "origins" ? undefined : "NAMED\r\n")),
    );
    const queue = await queueFor(t, lists);
    const jobs = await allOf(queue.jobs("t", { state: "ready", show: 3 }));
    assert.deepEqual(
      jobs.map(({ id, state, timeLeft, shown, progress, note, cancelled }) => [
        ...[id, state, timeLeft, [...shown]],
        ...[progress, note, cancelled],
      ]),
      [
        [9, "ready", 4, [0xff], 7, "ä", ""],
        [10, "ready", undefined, [], undefined, undefined, undefined],
      ],
    );
    assert.deepEqual(await allOf(queue.batches()), [
      { name: "12", number: 4, state: "open", outcome: "none" },
      { name: "c", number: 5, state: "complete", outcome: "failure" },
    ]);
    const schedules = await allOf(queue.schedules({ tube: "t" }));
    assert.deepEqual(
      schedules.map(({ name, every, cron, paused, next, fired }) => [name, every, cron, paused, next, fired]),
      [
        ["s", 2, undefined, true, undefined, 0],
        ["u", undefined, "@daily", false, new Date("2026-01-01"), 3],
      ],
    );
    assert.deepEqual(sentTo(lists), [...known.keys()]);
  });
});

describe("a job that the client holds", { concurrency: true }, () => {
  const RESERVE = "reserve-batch 1 -1 tubes=yes meta=yes abort=yes";
  type Held = Awaited<ReturnType<TextQueue["reserve"]>>;
  const cases: readonly (readonly [
    what: string,
    call: (job: Held) => unknown,
    lines: string[],
    isOver: boolean,
  ])[] = [
    ["is deleted", (job) => job.delete(), ["delete 9"], true],
    [
      "is released",
      (job) => job.release({ pri: 1, delay: 1.5, reason: "a b%" }),
      ["release 9 1 2 reason=a%20b%25"],
      true,
    ],
    ["is released with its own priority", (job) => job.release(), ["stats-job 9", "release 9 77 0"], true],
    ["is buried", (job) => job.bury({ pri: 0, reason: "ä" }), ["bury 9 0 reason=\u00c3\u00a4"], true],
    ["is buried with its own priority", (job) => job.bury({}), ["stats-job 9", "bury 9 77"], true],
    ["is touched", (job) => job.touch(), ["touch 9"], false],
    ["gets another time to run", (job) => job.update({ ttr: 5 }), ["update-job 9 ttr=5"], false],
    ["gets another priority", (job) => job.update({ pri: 5 }), ["update-job 9 pri=5"], false],
    ["is delayed", (job) => job.update({ delay: 0 }), ["update-job 9 delay=0"], true],
    ["goes to another tube", (job) => job.update({ tube: "u" }), ["update-job 9 tube=u"], true],
    [
      "is buried, and changed like any other then",
      async (job) => {
        await job.bury({ pri: 0 });
        await job.update({ pri: 5 });
      },
      ["bury 9 0", "update-job 9 pri=5"],
      true,
    ],
    ["is given back", (job) => job.giveBack(), ["update-job 9 delay=0"], true],
    ["is kicked like any other", (job) => job.kick(), ["kick-job 9"], false],
  ];
  for (const [what, call, lines, isOver] of cases) {
    it(what, async (t) => {
      const server = await serverFor(t);
      const queue = await queueFor(t, server);
      const job = await queue.reserve();
      assert.deepEqual([job.id, job.tube, job.meta, job.isOver], [9, "t", { n: "v" }, false]);
      await call(job);
      assert.deepEqual(sentTo(server), [RESERVE, ...lines]);
      assert.equal(job.isOver, isOver);
      // One that is over is touched no more.
      assert.equal(await queue.touchAll(), isOver ? 0 : 1);
    });
  }

  it("has no reason for a server without reasons", async (t) => {
    const server = await serverFor(
      t,
      ALL.filter((each) => each !== "name"),
    );
    const queue = await queueFor(t, server);
    await (await queue.reserve()).bury({ pri: 1, reason: "x" });
    await (await queue.reserve()).release({ pri: 2, reason: "x" });
    const reserve = RESERVE.replace(" meta=yes", "");
    assert.deepEqual(sentTo(server), [reserve, "bury 9 1", reserve, "release 9 2 0"]);
  });
});

describe("the tubes that the client watches", { concurrency: true }, () => {
  it("are said before the next reserve, and only what differs", async (t) => {
    const server = await serverFor(t, ALL, { "reserve-batch": "TIMED_OUT\r\n" });
    const queue = await queueFor(t, server);
    const saidFor = async (...args: unknown[]): Promise<string[]> => {
      const before = server.lines.length;
      (queue.watch as (...all: unknown[]) => void)(...args);
      assert.equal(await queue.reserve({ timeout: 0 }), undefined);
      return server.lines.slice(before).filter((line) => !/^(?:reserve-batch|extensions|name)\b/.test(line));
    };
    assert.deepEqual(await saidFor("a", "b", "a"), ["watch a", "watch b", "ignore default"]);
    assert.deepEqual(await saidFor("b", "a"), []);
    assert.deepEqual(await saidFor({ a: 2, b: 1 }), ["watch a weight=2", "reserve-order weighted"]);
    assert.deepEqual(await saidFor({ a: 2, b: 3 }), ["watch b weight=3", "reserve-order weighted"]);
    assert.deepEqual(await saidFor({ a: 2, b: 3 }, "weighted-time"), ["reserve-order weighted-time"]);
    assert.deepEqual(await saidFor({ a: 2, c: 4 }, "weighted-time"), [
      ...["watch c weight=4", "ignore b", "reserve-order weighted-time"],
    ]);
    assert.deepEqual(await saidFor("a"), ["watch a weight=1", "ignore c", "reserve-order strict"]);
    for (const weight of [0, 1001, 1.5]) assert.throws(() => queue.watch({ a: weight }), RangeError);
    assert.throws(() => queue.watch({}), TypeError);
  });

  it("have no weights on a server without reserve-order", async (t) => {
    const server = await serverFor(
      t,
      ALL.filter((each) => each !== "reserve-order"),
    );
    const queue = await queueFor(t, server);
    queue.watch({ a: 2 });
    await assert.rejects(queue.reserve({ timeout: 0 }), /no reserve-order/);
  });
});

describe("a client that is closed", { concurrency: true }, () => {
  for (const extensions of [ALL, []]) {
    const kind = extensions.length === 0 ? "plain beanstalkd" : "a server with extensions";
    it(`leaves no connection to ${kind}, and nothing waits`, async (t) => {
      const open = new Set<Socket>();
      const server = await scriptedServer(t, (line, _, socket) => {
        if (!open.has(socket)) {
          open.add(socket);
          socket.once("close", () => open.delete(socket));
        }
        if (line === "extensions")
          return extensions.length === 0
            ? "UNKNOWN_COMMAND\r\n"
            : report(...extensions.map((each) => `${each}: 1`));
        return line.startsWith("reserve") ? undefined : REPLIES[line.split(" ")[0]!];
      });
      const queue = await connect(server.address, { name: "n" });
      const waits = Promise.allSettled([queue.reserve(), queue.reserve()]);
      const reserves = (): number => server.lines.filter((line) => line.startsWith("reserve")).length;
      await eventually("both wait", () => reserves() === 2);
      assert.equal(open.size, 3);
      await queue.close();
      await eventually("all are gone", () => open.size === 0);
      const ends = (await waits).map((wait) => wait.status === "rejected" && wait.reason instanceof Closed);
      assert.deepEqual(ends, [true, true]);
      await assert.rejects(queue.put("t", BODY), Closed);
      await assert.rejects(queue.reserve(), Closed);
      await assert.rejects(queue.job(1).kick(), Closed);
      await queue.close();
      assert.equal(reserves(), 2);
    });
  }
});
