// npm run bench -- --profile: where the time goes, case by case, with a CPU profile for each
// thread.
import { appendFileSync, mkdtempSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { TurnContext } from "../case/bench-case.ts";
import { selectCases } from "../case/select-cases.ts";
import type { LoadSource } from "../load/load-source.ts";
import type { BenchOptions } from "../options.ts";
import type { RunFacts } from "../result/result-line.ts";
import { profileCase } from "./case-profile.ts";
import { profileText } from "./profile-text.ts";

const PROFILES = fileURLToPath(new URL("../profiles", import.meta.url));

/** `directory` is for logs. Rejects on a case without one measured load. */
export async function profile(
  options: BenchOptions,
  load: LoadSource,
  facts: RunFacts,
  directory: string,
  flags: TurnContext["flags"],
): Promise<void> {
  if (options.record || options.report !== undefined)
    throw new Error("--profile has no results to record or report; --json FILE appends what it found.");
  const date = facts.run.slice(0, 19).replaceAll(":", "");
  for (const benchCase of selectCases(options)) {
    const context = () => ({ load, directory: mkdtempSync(join(directory, "turn-")), flags });
    const found = await profileCase(benchCase, options, context, join(PROFILES, `${date}-${benchCase.key}`));
    console.log(`\n${profileText(found)}\n`);
    if (options.json !== undefined)
      appendFileSync(options.json, `${JSON.stringify({ ...facts, ...found })}\n`);
  }
}
