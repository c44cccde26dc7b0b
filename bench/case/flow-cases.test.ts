// Tests of the cases of batches and schedules, at a small size on our server.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { ourContender } from "../contenders.ts";
import { WorkerLoad } from "../load/worker-load.ts";
import { parseOptions } from "../options.ts";
import { membersCase } from "./members-case.ts";
import { schedulesCase } from "./schedules-case.ts";

const directory = mkdtempSync(join(tmpdir(), "runnerbean-bench-"));
const load = new WorkerLoad(1);
after(async () => {
  await load.close();
  rmSync(directory, { recursive: true });
});
const contender = ourContender(parseOptions("", "", []));
const context = { contender, load, directory, flags: { binlog: false } };

test("members: jobs of both kinds go through the server, each at a cost", async () => {
  const { figures } = await membersCase(2000).measure(context);
  assert.ok(figures.groupedCpu! > 0 && figures.memberCpu! > 0 && figures.memberRatio! > 0);
  assert.ok(Number.isFinite(figures.memberBytes));
});

test("schedules: all are set, and their cost is seen beside a server without", async () => {
  const { figures } = await schedulesCase(150, 0.2).measure(context);
  assert.ok(figures.scheduleCpu! > 0);
  assert.ok(Number.isFinite(figures.schedulesShare));
});
