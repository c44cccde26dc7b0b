// Test of the image: deploy/Dockerfile, built and run without an engine's service.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { makeExecutable } from "../../packaging/executable/executable.ts";
import { makeContext } from "../../packaging/image/context.ts";
import { HERE } from "../../packaging/node.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { bundleServer } from "../support/server/server-bundle.ts";

const RUN = fileURLToPath(new URL("image-run.sh", import.meta.url));

describe("the image", () => {
  it("has at most 60 MB, and serves as a user on a root that can't be written", async (t) => {
    if (process.env["PACKAGING"] !== "whole")
      return t.skip("builds an executable and an image: npm run packaging");
    if (process.getuid!() !== 0) return t.skip("only root can unpack and run an image");
    if (!canRun(t, NEEDS.buildah, NEEDS.umoci, NEEDS.crun, NEEDS.curl, NEEDS.ruby, NEEDS.ip)) return;
    const folder = temporaryFolder(t, "image");
    const bundle = join(folder, "bundle");
    cpSync(dirname(process.env["SERVER_BUNDLE"] ?? (await bundleServer())), bundle, { recursive: true });
    const { EXECUTABLE: executable = join(folder, "runnerbean") } = process.env;
    if (executable === join(folder, "runnerbean")) makeExecutable(bundle, executable);
    makeContext(join(folder, "context"), { executables: { [HERE]: executable }, bundle });
    const { status, stdout, stderr } = spawnSync(RUN, [join(folder, "context")], { encoding: "utf8" });
    assert.equal(status, 0, stdout + stderr);
    assert.match(stdout, /^image: passed$/m);
    t.diagnostic(stdout);
  });
});
