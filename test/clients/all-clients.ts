// Third-party clients in several languages, each with a realistic cycle.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { NEEDS, type Need } from "../support/machine/need.ts";
import { cycleWithFivebeans } from "./fivebeans.ts";
import { cycleWithJackd } from "./jackd.ts";

const run = promisify(execFile);

interface Client {
  readonly name: string;
  readonly needs: readonly Need[];
  readonly cycle: (port: number) => Promise<void>;
}

export const CLIENTS: readonly Client[] = [
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

async function runScript(program: string, script: string, port: number): Promise<void> {
  const path = fileURLToPath(new URL(script, import.meta.url));
  const { stdout } = await run(program, [path, `${port}`], { timeout: 30_000 });
  assert.equal(stdout, "ok\n");
}
