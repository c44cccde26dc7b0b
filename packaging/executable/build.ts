// npm run build:executable: writes dist/runnerbean-linux-ARCH. Arguments are architectures; this
// machine's by default.

import { statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chosenArchitectures } from "../node.ts";
import { makeExecutable } from "./executable.ts";

const DIST = fileURLToPath(new URL("../../dist", import.meta.url));

for (const architecture of chosenArchitectures(
  "build:executable",
  "Writes dist/runnerbean-linux-ARCH, one file that needs no Node.",
)) {
  const output = join(DIST, `runnerbean-linux-${architecture}`);
  makeExecutable(DIST, output, architecture);
  process.stdout.write(`${output}: ${Math.round(statSync(output).size / 2 ** 20)} MiB\n`);
}
