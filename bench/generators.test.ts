// Tests of both load generators, each through every scenario against beanstalkd for a moment;
// skipped if it isn't installed.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import { ourContender } from "./contenders.ts";
import { type LoadSource, NO_MARKS } from "./load/load-source.ts";
import { NativeLoad } from "./load/native-load.ts";
import { nativeTable, nativeTableFile } from "./load/native-table.ts";
import { SCENARIO_NAMES, SCENARIOS } from "./load/programs.ts";
import { WorkerLoad } from "./load/worker-load.ts";
import { WORKLOAD_DEFAULTS, type Workload } from "./load/workload.ts";
import { parseOptions } from "./options.ts";
import { commandContender, type RunningServer } from "./server/contender.ts";

const SMALL: Workload = {
  ...WORKLOAD_DEFAULTS,
  connections: 6,
  watchers: 5,
  pipeline: 4,
  tubes: 3,
  seconds: 0.05,
  warmupSeconds: 0,
};

const has = (program: string, flag: string) => spawnSync(program, [flag]).error === undefined;
const hasServer = has("beanstalkd", "-v");

test("slow-sync: each sync takes the time that it is told", {
  skip: has("make", "-v") && has("cc", "-v") ? false : "no compiler",
}, () => {
  const room = "native-bench";
  const built = spawnSync("make", ["-s", "-C", room, "build/slow-sync.so"], { encoding: "utf8" });
  assert.equal(built.status, 0, built.stderr);
  const syncs = `const fs = require("node:fs"), file = fs.openSync(process.argv[1], "r");
      const beganMs = performance.now();
      fs.fdatasyncSync(file), fs.fsyncSync(file);
      console.log(performance.now() - beganMs);`;
  const env = { ...process.env, SYNC_US: "100000", LD_PRELOAD: `${room}/build/slow-sync.so` };
  const ran = spawnSync(process.execPath, ["-e", syncs, "package.json"], { encoding: "utf8", env });
  assert.ok(Number(ran.stdout) >= 200, `${ran.stdout} ms ${ran.stderr}`);
});

test("nativeTable: the generator in C has the same scenarios", () => {
  const written = readFileSync(nativeTableFile, "utf8");
  assert.equal(written, nativeTable(), "run: bin/node bench/load/write-native-table.ts");
});

describe("load generators", { skip: hasServer ? false : "no beanstalkd on the PATH" }, () => {
  let server: RunningServer;
  /** For what beanstalkd has not. */
  let ours: RunningServer;
  before(async () => {
    server = await commandContender("beanstalkd", ["beanstalkd"]).start({});
    ours = await ourContender(parseOptions("", "", [])).start({});
  });
  after(async () => {
    await server.stop();
    await ours.stop();
  });

  exercise("workers", true, () => new WorkerLoad(2));
  exercise("native", has("make", "-v") && has("cc", "-v"), () => new NativeLoad(1));

  function exercise(name: string, isPossible: boolean, make: () => LoadSource): void {
    describe(name, { skip: isPossible ? false : "no compiler" }, () => {
      let load: LoadSource;
      before(() => {
        load = make();
      });
      after(() => load.close());

      test("drain: every TIMED_OUT of empty tubes counts", async () => {
        // Over within a millisecond, so that a start before its time shows. Several times: not each
        // start is early.
        const drain = { ...SMALL, scenario: "drain", seconds: 5 } as const;
        for (let run = 0; run < 10; run++) {
          const { commands } = await load.run(server.address, drain, NO_MARKS);
          assert.equal(commands, drain.connections * drain.pipeline);
        }
      });

      for (const scenario of SCENARIO_NAMES) {
        test(`${scenario}: replies are right and counted`, async () => {
          const { address } = SCENARIOS[scenario].isExtended === true ? ours : server;
          const result = await load.run(address, { ...SMALL, scenario }, NO_MARKS);
          assert.ok(result.commands > 0);
          assert.ok(result.metrics.get("command")!.count > 0);
          // What stays behind has one body size, and is taken away before the next scenario.
          await load.run(address, { ...SMALL, scenario: "drain", seconds: 5 }, NO_MARKS);
        });
      }

      test("put-unique: keys are remembered, and no two runs share them", async () => {
        const run = { ...SMALL, scenario: "put-remembered", jobs: 200, seconds: 5 } as const;
        for (let turn = 0; turn < 2; turn++) {
          assert.equal((await load.run(ours.address, run, NO_MARKS)).inserted, 200);
          await load.run(ours.address, { ...SMALL, scenario: "drain", seconds: 5 }, NO_MARKS);
        }
      });

      test("jobs: the load puts exactly the requested number", async () => {
        const put = { ...SMALL, scenario: "put", jobs: 1001, seconds: 5 } as const;
        assert.equal((await load.run(server.address, put, NO_MARKS)).inserted, 1001);
      });

      test("a wrong body is an error", async () => {
        const other = load.run(server.address, { ...SMALL, bodyBytes: 100 }, NO_MARKS);
        await assert.rejects(other, /another body size was put/);
        await load.run(server.address, { ...SMALL, scenario: "drain", seconds: 5 }, NO_MARKS);
      });

      if (name === "native")
        test("processes share the connections, and one that fails ends all", async () => {
          const put = { ...SMALL, scenario: "put", processes: 5, jobs: 1001, seconds: 5 } as const;
          const result = await load.run(server.address, put, NO_MARKS);
          assert.equal(result.inserted, 1001);
          assert.equal(result.metrics.get("command")!.count, 1001);
          await load.run(server.address, { ...SMALL, scenario: "drain", processes: 5, seconds: 5 }, NO_MARKS);
          const nobody = { host: "127.0.0.1", port: 1 };
          await assert.rejects(load.run(nobody, put, NO_MARKS), /Connection refused/);
        });

      if (name === "native")
        test("workers take all jobs of some tubes by single commands and report unknown replies", async (t) => {
          // Of its own: what clients of others held comes back when the server notices that they
          // are gone.
          const own = await commandContender("beanstalkd", ["beanstalkd"]).start({});
          t.after(() => own.stop());
          const put = { ...SMALL, scenario: "put", jobs: 251, seconds: 5 } as const;
          await load.run(own.address, put, NO_MARKS);
          const workers = { connections: 4, batch: 20, tubes: SMALL.tubes };
          await assert.rejects(
            load.takeBatches!(own.address, { ...workers, isSingle: false }),
            /wrong reply: BAD_FORMAT/,
          );
          const taken = await load.takeBatches!(own.address, { ...workers, isSingle: true });
          assert.equal(taken.jobs, 251);
        });

      test("rate: the load sends the requested number of commands", async () => {
        const paced = { ...SMALL, connections: 2, pipeline: 1, rate: 300, seconds: 0.5 };
        const { commands } = await load.run(server.address, paced, NO_MARKS);
        // 150 are due; those whose replies a busy machine held up past the end are not counted.
        assert.ok(commands > 50 && commands <= 160, `${commands}`);
      });
    });
  }
});
