// Size of the code path of a command: the files and functions of src/ that V8 counts once for each
// put, each reserve that waits and its put, and each delete of a server with sockets and a log.
//
// The figures are there to be watched. A server counts its calls until it ends, so what belongs to
// a command is what is called for at least half of many, and not without them. Each command finds
// all threads asleep, so waking and going to sleep always belong to it. CODE_PATH=list prints the
// functions, too.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { startServer } from "../support/server/server-process.ts";
import { WireClient } from "../support/server/wire-client.ts";

const SRC = new URL("../../src/", import.meta.url).href;
const COMMANDS = 100;
/** The same threads on any machine. A sync is due by time, not by command. */
const FLAGS = ["--shards", "1", "--acceptors", "1", "--placement", "together", "-F"];

interface Coverage {
  readonly result: readonly {
    readonly url: string;
    readonly functions: readonly {
      readonly functionName: string;
      readonly ranges: readonly { readonly startOffset: number; readonly count: number }[];
    }[];
  }[];
}

interface Server {
  connect(): Promise<WireClient>;
  /** Resolves when all of its threads sleep. */
  sleeps(): Promise<void>;
}

type Play = (server: Server) => Promise<void>;

async function putAll(server: Server, client: WireClient): Promise<void> {
  for (let n = 1; n <= COMMANDS; n++) {
    await server.sleeps();
    assert.equal((await client.put("hello")).line, `INSERTED ${n}`);
  }
}

function isAsleep(pid: number): boolean {
  return readdirSync(`/proc/${pid}/task`).every((thread) => {
    const stat = readFileSync(`/proc/${pid}/task/${thread}/stat`, "latin1");
    return stat.slice(stat.lastIndexOf(")") + 2)[0] === "S";
  });
}

/** Returns how often a server calls each function of src/, by "<file> <name> <offset>". */
async function callsOf(t: TestContext, log: string, play: Play): Promise<Map<string, number>> {
  const counts = temporaryFolder(t, "calls");
  const env = { NODE_V8_COVERAGE: counts, RUNNERBEAN_CHECKED: "0" };
  const server = await startServer({ kind: "ours", flags: [...FLAGS, "-b", log], env });
  const clients: WireClient[] = [];
  await play({
    async connect() {
      const client = await WireClient.connect(server.address);
      clients.push(client);
      return client;
    },
    async sleeps() {
      while (!isAsleep(server.pid)) await nextTurn();
    },
  });
  for (const client of clients) client.close();
  await server.stop();
  const calls = new Map<string, number>();
  for (const thread of readdirSync(counts)) {
    const { result } = JSON.parse(readFileSync(join(counts, thread), "utf8")) as Coverage;
    for (const { url, functions } of result.filter((script) => script.url.startsWith(SRC)))
      for (const { functionName, ranges } of functions) {
        const key = `${url.slice(SRC.length)} ${functionName} ${ranges[0]!.startOffset}`;
        if (functionName !== "") calls.set(key, (calls.get(key) ?? 0) + ranges[0]!.count);
      }
  }
  return calls;
}

/** Deletes all jobs from this one on by one command. */
async function deleteFrom(client: WireClient, first: number): Promise<void> {
  const ids = Array.from({ length: COMMANDS }, (_, index) => first + index);
  assert.equal((await client.ask(`delete-batch ${ids.join(" ")}`)).line, `DELETED_BATCH ${COMMANDS} 0`);
}

interface Rest {
  /** What a server before did, whose log this one reads. */
  readonly prepare?: Play;
  /** What `play` does besides the command: a server that does only this is subtracted. */
  readonly rest?: Play;
}

/** Prints how many files and functions a command passes, in all and in each folder of src/. */
async function tell(t: TestContext, name: string, play: Play, { prepare, rest }: Rest = {}): Promise<void> {
  const logs = [temporaryFolder(t, "before"), temporaryFolder(t, "log")] as const;
  if (prepare !== undefined) for (const log of logs) await callsOf(t, log, prepare);
  const before = await callsOf(t, logs[0], async (server) => await rest?.(server));
  const calls = await callsOf(t, logs[1], play);
  const passed = [...calls.keys()].filter((key) => calls.get(key)! - (before.get(key) ?? 0) >= COMMANDS / 2);
  const files = [...new Set(passed.map((key) => key.split(" ")[0]!))];
  t.diagnostic(`${name}: ${files.length} files, ${passed.length} functions`);
  for (const folder of new Set(files.map((file) => file.split("/")[0]!)))
    t.diagnostic(`  ${folder}: ${passed.filter((key) => key.startsWith(`${folder}/`)).length} functions`);
  if (process.env["CODE_PATH"] === "list") for (const key of passed.sort()) t.diagnostic(`    ${key}`);
  for (const folder of ["acceptor/", "ring/", "shard/", "engine/", "binlog/"])
    assert.ok(
      files.some((file) => file.startsWith(folder)),
      `the path through ${folder} is seen`,
    );
}

describe("the code that a command passes through", () => {
  it("is counted for a put", async (t) => {
    await tell(t, "put", async (server) => putAll(server, await server.connect()));
  });

  it("is counted for a reserve that waits and the put that serves it", async (t) => {
    const reserveAll: Play = async (server) => {
      const worker = await server.connect();
      const client = await server.connect();
      for (let n = COMMANDS + 1; n <= 2 * COMMANDS; n++) {
        worker.send("reserve\r\n");
        await server.sleeps();
        assert.equal((await client.put("hello")).line, `INSERTED ${n}`);
        assert.equal((await worker.readReply()).line, `RESERVED ${n} 5`);
        await server.sleeps();
      }
      // Otherwise, the end of the connection would give them back, one by one.
      await deleteFrom(worker, COMMANDS + 1);
    };
    const prepare: Play = async (server) => {
      const client = await server.connect();
      await client.ask("use other");
      await putAll(server, client);
    };
    const rest: Play = async (server) => deleteFrom(await server.connect(), 1);
    await tell(t, "reserve and its put", reserveAll, { prepare, rest });
  });

  it("is counted for a delete", async (t) => {
    const deleteAll: Play = async (server) => {
      const client = await server.connect();
      for (let n = 1; n <= COMMANDS; n++) {
        await server.sleeps();
        assert.equal((await client.ask(`delete ${n}`)).line, "DELETED");
      }
    };
    const prepare: Play = async (server) => putAll(server, await server.connect());
    await tell(t, "delete", deleteAll, { prepare });
  });
});
