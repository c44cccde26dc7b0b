// Two contenders of the bench: the HTTP load goes to the measured server, or to another one.
//
//   npm run bench:native -- --scenario put-reserve-delete --turns 7 --no-ours \
//     --theirs "itself=node bench/http/whose-load.ts itself" \
//     --theirs "another=node bench/http/whose-load.ts another"
//
// Both run beside a second server of the same kind. In both servers 10,000 tubes change each
// second; scrapes, lists, totals and browsing are for one of them. So the cores are shared by the
// same in both cases, and the ratio shows what the queue notices of its own HTTP side.

import { type ChildProcess, spawn } from "node:child_process";
import { connect } from "node:net";
import { freePort } from "../../test/support/machine/free-port.ts";
import { askForAll, changeTubes } from "./http-load.ts";
import { MAIN, untilReady } from "./serve-beside.ts";

const LOAD = "--load";

interface Place {
  readonly http: number;
  readonly port: number;
}

const urlOf = ({ http }: Place): string => `http://127.0.0.1:${http}`;
const flagsOf = ({ http }: Place): string[] => ["--http", `127.0.0.1:${http}`];

/** Becomes the server that is measured, once the other one and what makes the load are there. */
async function serve(asked: string, args: readonly string[]): Promise<never> {
  if (asked !== "itself" && asked !== "another") throw new Error(`${asked}: expected itself or another`);
  const own: Place = { http: await freePort(), port: Number(args[args.indexOf("-p") + 1]) };
  const other: Place = { http: await freePort(), port: await freePort() };
  const load = [import.meta.filename, LOAD, asked, JSON.stringify([own, other])];
  const child = spawn(process.execPath, load, { stdio: ["ignore", "pipe", "inherit"] });
  await new Promise((resolve) => child.stdout.once("data", resolve));
  const command = [process.execPath, ...process.execArgv, MAIN, ...args, ...flagsOf(own)];
  return process.execve!(process.execPath, command, process.env as Record<string, string>);
}

/** Starts the other server, and makes the load until the one that is measured ends. */
async function makeLoad(asked: string, places: readonly [own: Place, other: Place]): Promise<void> {
  const [own, other] = places;
  const args = [MAIN, "-l", "127.0.0.1", "-p", `${other.port}`, ...flagsOf(other)];
  const server = spawn(process.execPath, args, { stdio: "ignore" });
  await untilReady(urlOf(other));
  process.stdout.write("ready\n");
  await untilReady(urlOf(own));
  endWith(own, server);
  await Promise.all([
    changeTubes(own.port),
    changeTubes(other.port),
    askForAll(urlOf(asked === "itself" ? own : other)),
  ]);
}

function endWith({ port }: Place, server: ChildProcess): void {
  const end = (): never => {
    server.kill("SIGKILL");
    process.exit();
  };
  connect(port, "127.0.0.1").on("error", end).on("close", end);
  process.on("uncaughtException", end).on("unhandledRejection", end);
}

const [first = "", ...rest] = process.argv.slice(2);
if (first === LOAD) await makeLoad(rest[0]!, JSON.parse(rest[1]!) as [Place, Place]);
else await serve(first, rest);
