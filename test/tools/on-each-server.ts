// Suites of operator commands, one on our server and one on beanstalkd.

import assert from "node:assert/strict";
import { after, before, describe } from "node:test";
import { NEEDS, type Need } from "../support/machine/need.ts";
import { type ServerKind, type ServerProcess, startServer } from "../support/server/server-process.ts";
import { runTool, type ToolResult } from "../support/server/tool.ts";
import { skipVariant } from "../support/whole.ts";

const KINDS = ["ours", "beanstalkd-1.12"] as const satisfies readonly ServerKind[];

interface Suite {
  readonly kind: (typeof KINDS)[number];
  readonly need: Need;
  /** Where its server listens, once a test runs. */
  readonly url: () => string;
  readonly run: (args: readonly string[], input?: string | Buffer) => Promise<ToolResult>;
  /** Returns what a command that must succeed prints. */
  readonly say: (...args: string[]) => Promise<string>;
}

export function onEachServer(tests: (suite: Suite) => void): void {
  for (const [index, kind] of KINDS.entries())
    describe(`cli: ${kind}`, { concurrency: 2, skip: skipVariant(index, KINDS.length) }, () => {
      let server: ServerProcess | undefined;
      before(async () => {
        // Beanstalkd may not be here; each test says so.
        server = await startServer({ kind }).catch(() => undefined);
      });
      after(() => server?.stop());
      const url = (): string => `beanstalk://127.0.0.1:${server!.port}`;
      const run: Suite["run"] = (args, input = "") =>
        runTool(args, { input, env: { RUNNERBEAN_URL: url() } });
      const say: Suite["say"] = async (...args) => {
        const { code, stdout, stderr } = await run(args);
        assert.equal(code, 0, stderr);
        return stdout;
      };
      tests({ kind, need: kind === "ours" ? NEEDS.ours : NEEDS.beanstalkd, url, run, say });
    });
}
