// npm run attacks: delay of a bystander during each attack of the table, on the running server and
// on beanstalkd.

import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import Table from "cli-table3";
import { Command, InvalidArgumentError } from "commander";
import { type ServerKind, type ServerProcess, startServer } from "../support/server/server-process.ts";
import { positiveNumber } from "../support/whole-number.ts";
import { ATTACKS, type Attack, DEPTH } from "./attacks.ts";

/** A bystander is watched so long beside an idle server. */
const IDLE_MS = 500;
const CHUNK = 1000;
/**
 * Extra wait that a bystander may have compared with an idle server, ms, and the factor over with
 * beanstalkd.
 */
const WAIT_MS_MAX = 20;
const TIMES_MAX = 3;

interface Options {
  readonly count: number;
  readonly attack: readonly string[];
  readonly beanstalkd: boolean;
  readonly list?: boolean;
  readonly rounds: number;
}

interface Waits {
  readonly idleMs: number;
  readonly besideMs: number;
  /** With the time in which the machine had no core for the bystander or the server. */
  readonly byClockMs: number;
}

function attackName(text: string, before: readonly string[] = []): readonly string[] {
  if (!ATTACKS.some(({ name }) => name === text))
    throw new InvalidArgumentError("There is no such attack; --list names them.");
  return [...before, text];
}

const options = new Command("npm run attacks --")
  .description(
    "One client pipelines 256 commands over very many tubes, jobs, groups or keys. Prints how long a bystander's put takes " +
      `meanwhile, beside an idle server and with beanstalkd, and by the clock: with time without a core. A row fails beyond ${WAIT_MS_MAX} ms more than idle, and beyond ` +
      `${TIMES_MAX} times beanstalkd's wait. Meant for a quiet machine.`,
  )
  .option("--count <n>", "how many of everything", positiveNumber(10_000_000), 100_000)
  .option("--attack <name>", "only this attack; may be given several times", attackName)
  .option("--rounds <n>", "measure so often and take the median", positiveNumber(100), 1)
  .option("--no-beanstalkd", "only our server: beanstalkd takes minutes to prepare 100,000 tubes")
  .option("--list", "print the names of the attacks")
  .allowExcessArguments(false)
  .parse()
  .opts<Options>();

/** A client that reads only the reply to its last command. */
class Attacker {
  readonly #socket: Socket;
  #tail = "";
  #sentinels = 0;

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("data", (chunk: Buffer) => {
      this.#tail = (this.#tail + chunk.subarray(-80).toString("latin1")).slice(-80);
      socket.emit("tail");
    });
  }

  static async connect(server: ServerProcess): Promise<Attacker> {
    const socket = connect(server.address);
    await once(socket, "connect");
    return new Attacker(socket);
  }

  /** Sends commands, and waits until all are answered. */
  async play(text: string): Promise<void> {
    const name = `sentinel${++this.#sentinels}`;
    this.#socket.write(Buffer.from(`${text}watch ${name}\r\nignore ${name}\r\nuse ${name}\r\n`, "latin1"));
    while (!this.#tail.endsWith(`USING ${name}\r\n`)) await once(this.#socket, "tail");
  }

  send(text: string): void {
    this.#socket.write(Buffer.from(text, "latin1"));
  }

  close(): void {
    this.#socket.destroy();
  }
}

async function longestWait(
  server: ServerProcess,
  during: () => Promise<unknown>,
): Promise<[longestMs: number, byClockMs: number]> {
  const stopped = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(new URL("bystander-worker.ts", import.meta.url), {
    workerData: { address: server.address, pid: server.pid, stopped },
  });
  await once(worker, "message");
  await during();
  Atomics.store(stopped, 0, 1);
  const [longest] = (await once(worker, "message")) as [[number, number]];
  return longest;
}

async function prepare(attacker: Attacker, attack: Attack): Promise<string> {
  let used = "";
  let chunk: string[] = [];
  for (const part of attack.prepare(options.count)) {
    used = /use [^\r]+\r\n/.exec(part)?.[0] ?? used;
    if (chunk.push(part) < CHUNK) continue;
    await attacker.play(used + chunk.join(""));
    chunk = [];
  }
  await attacker.play(used + chunk.join(""));
  return used;
}

async function measure(kind: ServerKind, attack: Attack): Promise<Waits> {
  const server = await startServer({ kind });
  const clients: Attacker[] = [];
  try {
    const attacker = await Attacker.connect(server);
    clients.push(attacker);
    const used = await prepare(attacker, attack);
    for (let n = 0; n < (attack.waiters ?? 0); n++) {
      const waiter = await Attacker.connect(server);
      clients.push(waiter);
      waiter.send(`watch crowded\r\nignore default\r\n${attack.waits ?? "reserve"}\r\n`);
    }
    const [idleMs] = await longestWait(server, () => sleep(IDLE_MS));
    const pipeline = Array.from({ length: DEPTH }, (_, n) => `${attack.line(n, options.count)}\r\n`);
    const [besideMs, byClockMs] = await longestWait(server, () => attacker.play(used + pipeline.join("")));
    return { idleMs, besideMs, byClockMs };
  } finally {
    for (const client of clients) client.close();
    await server.kill();
  }
}

/** Returns the round with the median of the additional waits. */
async function medianOf(kind: ServerKind, attack: Attack): Promise<Waits> {
  const rounds: Waits[] = [];
  for (let round = 0; round < options.rounds; round++) rounds.push(await measure(kind, attack));
  rounds.sort((a, b) => a.besideMs - a.idleMs - (b.besideMs - b.idleMs));
  return rounds[rounds.length >> 1]!;
}

async function main(): Promise<void> {
  if (options.list === true) {
    for (const { name } of ATTACKS) console.log(name);
    return;
  }
  const table = new Table({ head: ["attack", "idle ms", "beside ms", "by the clock", "beanstalkd ms", ""] });
  const chosen = ATTACKS.filter(({ name }) => options.attack === undefined || options.attack.includes(name));
  for (const attack of chosen) {
    const ours = await medianOf("ours", attack);
    const theirs =
      attack.beanstalkd && options.beanstalkd ? await medianOf("beanstalkd-1.12", attack) : undefined;
    const isLong = ours.besideMs > ours.idleMs + WAIT_MS_MAX;
    const isLonger =
      theirs !== undefined && ours.besideMs > TIMES_MAX * Math.max(theirs.besideMs, ours.idleMs);
    if (isLong || isLonger) process.exitCode = 1;
    const verdict = isLonger ? "LONGER THAN BEANSTALKD" : isLong ? "LONG" : "";
    const row = [ours.idleMs, ours.besideMs, ours.byClockMs, theirs?.besideMs].map(
      (ms) => ms?.toFixed(1) ?? "-",
    );
    console.error(`${attack.name}: ${row.join(", ")} ${verdict}`.trimEnd());
    table.push([attack.name, ...row, verdict]);
  }
  console.log(table.toString());
}

await main();
