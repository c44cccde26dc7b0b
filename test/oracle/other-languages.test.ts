// docs/other-languages.md and docs/from-other-queues.md: their code is that of
// test/clients/extended/ and guides/, which is played here against our server.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { canRun, NEEDS, type Need } from "../support/machine/need.ts";
import { insertedCode, shownPart } from "../support/page-code.ts";
import { startServer } from "../support/server/server-process.ts";

const run = promisify(execFile);
const CLIENTS = fileURLToPath(new URL("../clients/", import.meta.url));
const DOCS = fileURLToPath(new URL("../../docs/", import.meta.url));
const RUN_MS_MAX = 60_000;
/**
 * Where the clients are that Debian doesn't have: checkouts of greenstalk, pheanstalk (8),
 * backburner and go-beanstalk.
 */
const { CLIENT_SOURCES = "/nowhere" } = process.env;
const source = (path: string): string => join(CLIENT_SOURCES, path);

interface Script {
  readonly name: string;
  readonly command: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly needs?: readonly Need[];
  /** Played only where these are: they are not part of CI. */
  readonly paths?: readonly string[];
}

const EXTENDED: readonly Script[] = [
  { name: "raw.py", command: ["python3"], needs: [NEEDS.python] },
  { name: "pheanstalk4.php", command: ["php"], needs: [NEEDS.php, NEEDS.pheanstalk] },
  { name: "beaneater.rb", command: ["ruby"], needs: [NEEDS.ruby, NEEDS.beaneater] },
  { name: "laravel.php", command: ["php"], paths: ["/usr/share/php/Illuminate/Queue/autoload.php"] },
  {
    name: "symfony.php",
    command: ["php"],
    paths: ["/usr/share/php/Symfony/Component/Messenger/Bridge/Beanstalkd/autoload.php"],
  },
  {
    name: "greenstalk.py",
    command: ["python3"],
    env: { PYTHONPATH: source("greenstalk/src") },
    paths: [source("greenstalk/src")],
  },
  {
    name: "pheanstalk8.php",
    command: ["php"],
    env: { PHEANSTALK: source("pheanstalk") },
    paths: [source("pheanstalk/src")],
  },
  {
    name: "backburner.rb",
    command: ["ruby", "-I", source("backburner/lib")],
    paths: [source("backburner/lib")],
  },
  { name: "beanstalk.go", command: [source("beanstalk")], paths: [source("beanstalk")] },
];

const GUIDES: readonly Script[] = [
  { name: "bullmq.ts", command: [process.execPath] },
  { name: "sqs.ts", command: [process.execPath] },
  { name: "laravel-queue.php", command: ["php"], paths: ["/usr/share/php/Illuminate/Queue/autoload.php"] },
  {
    name: "sidekiq.rb",
    command: ["ruby", "-I", source("backburner/lib")],
    paths: [source("backburner/lib")],
  },
];

const PAGES = [
  { page: "other-languages.md", folder: "extended/", scripts: EXTENDED, parts: ["runnerbean.php"] },
  { page: "from-other-queues.md", folder: "guides/", scripts: GUIDES, parts: [] },
];

describe("code on pages about clients and other queues", () => {
  for (const { page, folder, scripts, parts } of PAGES) {
    for (const { name, command, env = {}, needs = [], paths = [] } of scripts)
      it(`is played against our server: ${name}`, async (t) => {
        const absent = paths.find((path) => !existsSync(path));
        if (absent !== undefined) return t.skip(`${absent} is missing; CI doesn't play it`);
        if (!canRun(t, NEEDS.ours, ...needs)) return;
        const server = await startServer({ kind: "ours", flags: ["--shards", "2"] });
        t.after(() => server.stop());
        const [program, ...args] = command as [string, ...string[]];
        // A Go program is built before.
        const script = name.endsWith(".go") ? [] : [join(CLIENTS, folder, name)];
        const options = { timeout: RUN_MS_MAX, env: { ...process.env, ...env } };
        const { stdout } = await run(program, [...args, ...script, `${server.port}`], options);
        assert.equal(stdout.trimEnd().split("\n").at(-1), "ok");
      });

    it(`is on the page as it is played: ${page}`, () => {
      const path = join(DOCS, page);
      const text = readFileSync(path, "utf8");
      const { names, expected } = insertedCode(text, (name) => shownPart(join(CLIENTS, folder), name));
      const files = [...scripts.map(({ name }) => name), ...parts];
      assert.deepEqual(names.toSorted(), files.toSorted(), "each file is on the page once");
      if (process.env["UPDATE"] === "1") writeFileSync(path, expected);
      else assert.equal(text, expected, "UPDATE=1 bin/node --test test/oracle/other-languages.test.ts");
    });
  }
});
