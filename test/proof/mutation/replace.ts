// Replaces a source file with a mutant, in each thread of the process that preloads this.
//
// Environment: MUTANT_URL and MUTANT_TEXT (a file) name what is replaced; neither in a run for
// comparison.

import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";

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
