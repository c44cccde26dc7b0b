// Process that runs test files with one source file replaced, and ends with 1 at the first failure.
//
// Environment: MUTANT_URL and MUTANT_TEXT (a file) name what is replaced; neither in a run for
// comparison. Arguments: the files of tests. The last line it writes is its CPU time.

import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { run } from "node:test";

const { MUTANT_URL, MUTANT_TEXT } = process.env;
if (MUTANT_URL !== undefined && MUTANT_TEXT !== undefined) {
  const source = readFileSync(MUTANT_TEXT, "utf8");
  registerHooks({
    load: (url, context, nextLoad) =>
      url === MUTANT_URL
        ? { format: "module-typescript", source, shortCircuit: true }
        : nextLoad(url, context),
  });
}

const files = process.argv.slice(2);
const events = run({ files, isolation: "none", concurrency: 1 });
let failed = false;
for await (const { type, data } of events) {
  if (type !== "test:fail" || data.todo !== undefined) continue;
  failed = true;
  console.log(`FAILED ${data.file?.split("/").at(-1) ?? ""}: ${data.name}`);
  break;
}
const { user, system } = process.cpuUsage();
console.log(`CPU ${Math.ceil((user + system) / 1000)} ms`);
process.exit(failed ? 1 : 0);
