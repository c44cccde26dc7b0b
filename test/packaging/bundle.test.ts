// Tests of the bundle that `npm run build` makes: the same bytes each time, compiled code that V8
// takes, and nothing needed beside it.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { globSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { release } from "node:os";
import { basename, dirname, join } from "node:path";
import { before, describe, it, type TestContext } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { bundledFiles } from "../../packaging/bundle/bundle.ts";
import { HEAP_FLAG } from "../../packaging/bundle/parts.ts";
import { writeBundle } from "../../packaging/bundle/write-bundle.ts";
import { loadAssets } from "../../src/http/app/dashboard-assets.ts";
import { COLD_CALLS } from "../../src/server/lifecycle/cold-phase.ts";
import { defaultTransport } from "../../src/server/options/thread-settings.ts";
import { eventually } from "../support/eventually.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { ServerProcess, TEST_ENV } from "../support/server/server-process.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { SKIP_UNTIL_NIGHT } from "../support/whole.ts";

/** With bodies of 60 kB, more than the 24 MiB from which on a pool reads. */
const JOBS = 430;

/** Resident memory of an idle server, at most. */
const IDLE = [
  { flags: [], megabytesMax: 60 },
  { flags: ["--http", "127.0.0.1:0"], megabytesMax: 100 },
];

const TRIES_FFI = defaultTransport(release()) === "auto";

/** Prints for each part of a folder whether V8 refuses its compiled code. */
const REFUSED = `
const { readdirSync, readFileSync } = require("node:fs");
const { Script } = require("node:vm");
for (const name of readdirSync(process.argv[1]).filter((each) => each.endsWith(".js"))) {
  const read = (file) => readFileSync(process.argv[1] + "/" + file);
  const cachedData = read(name.replace(".js", ".cache"));
  const script = new Script(read(name).toString("latin1"), { filename: "runnerbean/" + name, cachedData });
  console.log(name + " " + script.cachedDataRejected);
}`;

/** Prints the bytecode of all functions of a folder's parts. */
const BYTECODE = `
const { readdirSync, readFileSync } = require("node:fs");
const { Script } = require("node:vm");
for (const flag of ["--no-lazy", "--print-bytecode"]) require("node:v8").setFlagsFromString(flag);
for (const name of readdirSync(process.argv[1]).filter((each) => each.endsWith(".js")))
  new Script(readFileSync(process.argv[1] + "/" + name, "latin1"));`;

function startedFrom(main: string, t: TestContext, ...flags: string[]): ServerProcess {
  const child = spawn(process.execPath, [main, "-p", "0", "-V", ...flags], { env: TEST_ENV });
  t.after(() => child.kill("SIGKILL"));
  return new ServerProcess("ours", child, 0, undefined);
}

async function portOf(server: ServerProcess): Promise<number> {
  const port = (): string | undefined => /serves on [\d.]+:(\d+)/.exec(server.stderr)?.[1];
  return Number(
    await eventually(
      () => server.stderr,
      () => (server.hasExited ? assert.fail(server.stderr) : port()),
    ),
  );
}

/** The bundle that `npm test` has made of the same sources, to start servers from. */
function madeByRun(): Map<string, Uint8Array> | undefined {
  const { SERVER_BUNDLE } = process.env;
  if (SERVER_BUNDLE === undefined || basename(SERVER_BUNDLE) !== "runnerbean.cjs") return undefined;
  const folder = dirname(SERVER_BUNDLE);
  const paths = globSync("**/*.*", { cwd: folder }).sort();
  return new Map(paths.map((path) => [path, readFileSync(join(folder, path))]));
}

describe("the bundle", { concurrency: 2 }, () => {
  let files: Map<string, Uint8Array>;

  before(async () => {
    files = madeByRun() ?? (await bundledFiles());
  });

  /** Writes the bundle where no folder of packages is near. */
  function written(t: TestContext): string {
    const folder = temporaryFolder(t, "bundle");
    writeBundle(files, folder);
    return folder;
  }

  it("is the same, byte for byte, when it is made again", async () => {
    const again = await bundledFiles();
    assert.deepEqual([...again.keys()], [...files.keys()]);
    for (const [path, bytes] of files) assert.ok(isDeepStrictEqual(again.get(path), bytes), path);
  });

  it("has compiled code that V8 takes", (t) => {
    const args = [HEAP_FLAG, "-e", REFUSED, join(written(t), "parts")];
    const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });
    assert.equal(stderr, "");
    const lines = stdout.trim().split("\n");
    assert.ok(lines.length > 5);
    for (const line of lines) assert.match(line, / false$/);
  });

  it("runs from sources alone if V8 refuses the compiled code", (t) => {
    const folder = written(t);
    const args = ["--no-opt", "--hash-seed=7", join(folder, "runnerbean.cjs"), "-v"];
    const { stdout, status } = spawnSync(process.execPath, args, { encoding: "utf8" });
    assert.match(stdout, /^runnerbean \d/);
    assert.equal(status, 0);
  });

  it("has no function that is too long for the calls of the cold phase", { skip: SKIP_UNTIL_NIGHT }, (t) => {
    const heads = "^\\[generated bytecode for function: \\|^Bytecode length: ";
    const command = `"$0" -e "$1" "$2" | grep -a '${heads}'`;
    const { stdout } = spawnSync(
      "sh",
      ["-c", command, process.execPath, BYTECODE, join(written(t), "parts")],
      {
        encoding: "latin1",
        maxBuffer: Number.POSITIVE_INFINITY,
      },
    );
    const functions = [...stdout.matchAll(/function: (.*) \(0x.*\nBytecode length: (\d+)$/gm)];
    assert.ok(functions.length > 10_000, `${functions.length} functions`);
    const tooLong = functions.filter(([, , length]) => Number(length) * COLD_CALLS >= 2 ** 31);
    // The bodies of whole parts have no name, and run once.
    const named = tooLong.filter(([, name]) => name !== "");
    assert.deepEqual(named, []);
    assert.ok(tooLong.length <= globSync("parts/*.js", { cwd: written(t) }).length);
  });

  it("has all files of the dashboard", () => {
    for (const [name, assetOf] of loadAssets())
      assert.ok(isDeepStrictEqual(files.get(`dashboard/${name}`), assetOf().bytes), name);
  });

  it("reads a large log in a pool of threads", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const main = join(written(t), "runnerbean.cjs");
    const log = temporaryFolder(t, "log");
    const start = (): ServerProcess => startedFrom(main, t, "-b", log);
    const first = start();
    const producer = await WireClient.connect({ port: await portOf(first) });
    const put = `put 0 0 60 60000\r\n${"x".repeat(60_000)}`;
    for (let job = 1; job <= JOBS; job++) assert.equal((await producer.ask(put)).line, `INSERTED ${job}`);
    producer.socket.destroy();
    first.signal("SIGTERM");
    await first.exited;
    const second = start();
    const client = await WireClient.connect({ port: await portOf(second) });
    assert.match(`${(await client.ask("stats")).body}`, new RegExp(`current-jobs-ready: ${JOBS}\n`));
    client.socket.destroy();
    second.signal("SIGTERM");
    assert.deepEqual(await second.exited, { code: 0, signal: null });
  });

  for (const { flags, megabytesMax } of IDLE) {
    it(`idles in ${megabytesMax} MB ${flags.join(" ")}`, async (t) => {
      if (!canRun(t, NEEDS.ours)) return;
      if (!TRIES_FFI) return t.skip("on this kernel, the server avoids node:ffi");
      const server = startedFrom(join(written(t), "runnerbean.cjs"), t, ...flags);
      const client = await WireClient.connect({ port: await portOf(server) });
      assert.equal((await client.ask("put 0 0 60 1\r\nx")).line, "INSERTED 1");
      await eventually(
        () => `${server.residentBytes() / 1e6} MB are too much`,
        () => server.residentBytes() < megabytesMax * 1e6,
        60_000,
      );
      // All code that it has dropped comes back.
      assert.match(`${(await client.ask("stats")).body}`, /current-jobs-ready: 1\n/);
      assert.equal((await client.ask("reserve")).line, "RESERVED 1 1");
      client.socket.destroy();
      server.signal("SIGTERM");
      assert.deepEqual(await server.exited, { code: 0, signal: null });
      assert.doesNotMatch(server.stderr, /Warning/);
    });
  }

  it("keeps away from node:ffi with --transport libuv", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const main = join(written(t), "runnerbean.cjs");
    const readsPages = async (...flags: string[]): Promise<boolean> => {
      const server = startedFrom(main, t, ...flags);
      await portOf(server);
      const descriptors = `/proc/${server.pid}/fd`;
      return readdirSync(descriptors).some((fd) => readlinkSync(join(descriptors, fd)).endsWith("/pagemap"));
    };
    assert.equal(await readsPages(), TRIES_FFI);
    assert.equal(await readsPages("--transport", "libuv"), false);
  });

  it("runs the tools", (t) => {
    const main = join(written(t), "runnerbean.cjs");
    for (const args of [["--help"], ["binlog", "--help"], ["config", "print"], ["completion", "bash"]]) {
      const { stdout, stderr, status } = spawnSync(process.execPath, [main, ...args], { encoding: "utf8" });
      assert.equal(status, 0, stderr);
      assert.ok(stdout.length > 300, args.join(" "));
    }
  });
});
