// Thread that loads a server, so that the event loop of the measuring test stays free. See
// background-load.ts.

import { parentPort, workerData } from "node:worker_threads";
import { SeededRandom } from "../seeded-random.ts";
import { WireClient } from "../server/wire-client.ts";
import type { LoadData, LoadNews } from "./background-load.ts";

const { address, kind, tube, jobs } = workerData as LoadData;
const REPLY_MS = 60_000;
const LF = 0x0a;
/** Commands sent before their replies are read. */
const BATCH_COMMANDS = 5000;
/** Connections of the mixed load, each with this pause between two rounds. */
const MIXED_CLIENTS = 8;
const MIXED_PAUSE_MS = 2;
const BODY_BYTES_MAX = 65_535;
/** Small commands of a greedy connection for each large one. */
const SMALL_COMMANDS = 10;

const tell = (news: LoadNews): void => parentPort!.postMessage(news);

let stopped = false;
parentPort!.once("message", () => {
  stopped = true;
});

/** Reads replies of `lines` lines in all; `onText` gets them in pieces. */
async function readLines(client: WireClient, lines: number, onText?: (text: string) => void): Promise<void> {
  for (let left = lines; left > 0; ) {
    const some = await client.readSome(REPLY_MS);
    if (some === null || some.length === 0) throw new Error(`${left} lines of ${lines} are missing`);
    for (let at = some.indexOf(LF); at >= 0; at = some.indexOf(LF, at + 1)) left--;
    onText?.(some.toString("latin1"));
  }
}

/**
 * Pipelines `count` commands whose replies have `linesEach` lines. Returns all replies if they are
 * wanted.
 */
async function pipeline(
  client: WireClient,
  count: number,
  command: (index: number) => string,
  linesEach: number,
  onText?: (text: string) => void,
): Promise<void> {
  for (let from = 0; from < count; from += BATCH_COMMANDS) {
    const batch = Math.min(BATCH_COMMANDS, count - from);
    client.send(Array.from({ length: batch }, (_, index) => command(from + index)).join(""));
    await readLines(client, batch * linesEach, onText);
  }
}

async function phase(name: string, work: () => Promise<unknown>): Promise<void> {
  tell({ news: "phase", name });
  await work();
}

async function connected(): Promise<WireClient> {
  const client = await WireClient.connect(address);
  for (const line of [`use ${tube}`, `watch ${tube}`, "ignore default"]) await client.ask(line);
  return client;
}

/**
 * One connection that sends far more than its share, all at once: bodies as large as may be, and
 * small commands.
 */
async function greedy(): Promise<void> {
  const client = await connected();
  const body = "x".repeat(BODY_BYTES_MAX);
  await phase("1,000 puts of 64 KiB", () =>
    pipeline(client, 1000, () => `put 0 0 600 ${BODY_BYTES_MAX}\r\n${body}\r\n`, 1),
  );
  await phase(`${jobs} peeks of 64 KiB`, async () => {
    client.send("peek-ready\r\n".repeat(jobs));
    await readLines(client, jobs * 2);
  });
  await phase(`${jobs * SMALL_COMMANDS} small commands`, async () => {
    client.send("list-tube-used\r\n".repeat(jobs * SMALL_COMMANDS));
    await readLines(client, jobs * SMALL_COMMANDS);
  });
  client.close();
}

/**
 * A tube with very many jobs: put delayed, kicked, reserved and left, buried and kicked, deleted.
 */
async function huge(): Promise<void> {
  const client = await connected();
  let replies = "";
  await phase(`${jobs} puts`, () =>
    pipeline(
      client,
      jobs,
      (index) => `put ${index % 1000} 10000 600 1\r\nx\r\n`,
      1,
      (text) => {
        replies += text;
      },
    ),
  );
  const ids = replies.match(/\d+/g) ?? [];
  if (ids.length !== jobs) throw new Error(`${ids.length} ids for ${jobs} puts`);
  const kickAll = async (): Promise<void> => {
    client.send(`kick ${jobs}\r\n`);
    const { line } = await client.readReply(REPLY_MS);
    if (line !== `KICKED ${jobs}`) throw new Error(line);
  };
  await phase("kick of all, delayed", kickAll);
  const holder = await connected();
  await phase("reserve of all", () => pipeline(holder, jobs, () => "reserve\r\n", 2));
  await phase("end of the connection that holds all", async () => {
    holder.close();
    for (let left = true; left; )
      left = !/current-jobs-reserved: 0/.test(
        (await client.ask(`stats-tube ${tube}`)).body?.toString() ?? "",
      );
  });
  await phase("pause, and its end, with all ready", async () => {
    await client.ask(`pause-tube ${tube} 1`);
    await client.readSome(1100);
  });
  await phase("delete of all", () => pipeline(client, jobs, (index) => `delete ${ids[index]}\r\n`, 1));
  client.close();
}

/**
 * Puts, reserves, releases, touches, buries, kicks, looks and deletes by several connections in
 * several tubes.
 */
async function mixed(): Promise<void> {
  const body = "x".repeat(500);
  const client = async (number: number): Promise<void> => {
    const random = new SeededRandom(number);
    const own = await WireClient.connect(address);
    const name = `${tube}${number % 4}`;
    for (const line of [`use ${name}`, `watch ${name}`, `watch ${tube}${(number + 1) % 4}`])
      await own.ask(line);
    while (!stopped) {
      for (let each = 0; each < 3; each++) await own.put(body, { pri: random.between(0, 9), ttr: 5 });
      for (let each = 0; each < 3; each++) {
        const { line } = await own.ask("reserve-with-timeout 1");
        const id = /^RESERVED (\d+)/.exec(line)?.[1];
        if (id === undefined) continue;
        await own.ask(`touch ${id}`);
        const end = random.pick([
          `delete ${id}`,
          `delete ${id}`,
          `release ${id} 3 0`,
          `bury ${id} 1`,
        ] as const);
        await own.ask(end);
      }
      await own.ask("kick 2");
      await own.ask("stats");
      await new Promise((resolve) => setTimeout(resolve, MIXED_PAUSE_MS));
    }
    own.close();
  };
  tell({ news: "phase", name: "mixed commands" });
  await Promise.all(Array.from({ length: MIXED_CLIENTS }, (_, number) => client(number)));
}

await { greedy, huge, mixed }[kind]();
tell({ news: "done" });
parentPort!.close();
