// Clients that others wrote, in four languages' idioms, each through a realistic cycle: against our server and against beanstalkd.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { cycleWithFivebeans } from "./clients/fivebeans.ts";
import { cycleWithJackd } from "./clients/jackd.ts";
import { canRun, NEEDS, type Need } from "./support/need.ts";
import { type ServerKind, startServer } from "./support/server-process.ts";

const run = promisify(execFile);

interface Client {
  readonly name: string;
  readonly needs: readonly Need[];
  readonly cycle: (port: number) => Promise<void>;
}

const CLIENTS: readonly Client[] = [
  { name: "jackd (npm)", needs: [], cycle: cycleWithJackd },
  { name: "fivebeans (npm)", needs: [], cycle: cycleWithFivebeans },
  {
    name: "Pheanstalk (PHP)",
    needs: [NEEDS.php, NEEDS.pheanstalk],
    cycle: (port) => runScript("php", "pheanstalk.php", port),
  },
  {
    name: "beaneater (Ruby)",
    needs: [NEEDS.ruby, NEEDS.beaneater],
    cycle: (port) => runScript("ruby", "beaneater.rb", port),
  },
];

const SERVERS: readonly { kind: ServerKind; need: Need; flags: readonly string[] }[] = [
  { kind: "beanstalkd-1.12", need: NEEDS.beanstalkd, flags: [] },
  { kind: "ours", need: NEEDS.ours, flags: ["--shards", "1"] },
  { kind: "ours", need: NEEDS.ours, flags: ["--shards", "4", "--acceptors", "2"] },
];

async function runScript(program: string, script: string, port: number): Promise<void> {
  const path = fileURLToPath(new URL(`clients/${script}`, import.meta.url));
  const { stdout } = await run(program, [path, `${port}`], { timeout: 30_000 });
  assert.equal(stdout, "ok\n");
}

for (const { kind, need, flags } of SERVERS) {
  describe(`clients against ${[kind, ...flags].join(" ")}`, () => {
    for (const client of CLIENTS) {
      it(client.name, { timeout: 60_000 }, async (t) => {
        if (!canRun(t, need, ...client.needs)) return;
        const server = await startServer({ kind, flags });
        try {
          const gone = server.exited.then((exit) => {
            throw new Error(`The server is gone: ${JSON.stringify(exit)}\n${server.stdout}${server.stderr}`);
          });
          gone.catch(() => {}); // When the cycle is over it no longer matters.
          await Promise.race([client.cycle(server.port), gone]);
        } finally {
          await server.stop();
        }
      });
    }
  });
}
