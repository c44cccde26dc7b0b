// npm run build:executable: writes dist/runnerbean-linux-ARCH.

import { statSync } from "node:fs";
import { arch } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { makeExecutable } from "./executable.ts";

const DIST = fileURLToPath(new URL("../../dist", import.meta.url));

const output = join(DIST, `runnerbean-linux-${arch()}`);
makeExecutable(DIST, output);
process.stdout.write(`${output}: ${Math.round(statSync(output).size / 2 ** 20)} MiB\n`);
