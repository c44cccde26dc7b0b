// Takes the servers in turns through a case: ours, theirs, ours, theirs ..., each time freshly
// started.
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { BenchCase, TurnContext } from "./case/bench-case.ts";
import type { LoadSource } from "./load/load-source.ts";
import type { Measurement } from "./result/measurement.ts";
import { type CaseOutcome, serverOutcome } from "./result/outcome.ts";
import type { Progress } from "./result/progress.ts";
import { type Contender, ServerRefused } from "./server/contender.ts";

interface TurnPlan {
  readonly contenders: readonly Contender[];
  readonly load: LoadSource;
  readonly turns: number;
  /** Where the turns' directories are made. */
  readonly directory: string;
  readonly flags: TurnContext["flags"];
  readonly progress: Progress;
}

export function turnsOf(benchCase: BenchCase, turns: number): number {
  return Math.min(turns, benchCase.turnsMax ?? turns);
}

export async function runTurns(benchCase: BenchCase, plan: TurnPlan): Promise<CaseOutcome> {
  const measured = plan.contenders.map(() => [] as Measurement[]);
  const skipped = new Map<Contender, string>();
  for (let turn = 0; turn < turnsOf(benchCase, plan.turns); turn++) {
    for (const [index, contender] of plan.contenders.entries()) {
      plan.progress.begin(`${benchCase.title}: ${contender.name}`);
      if (!skipped.has(contender)) {
        const result = await tryTurn(benchCase, contender, plan);
        if (typeof result === "string") skipped.set(contender, result);
        else measured[index]!.push(result);
      }
      plan.progress.done();
    }
  }
  const servers = plan.contenders.map((contender, i) =>
    serverOutcome(contender, measured[i]!, skipped.get(contender)),
  );
  return { benchCase, servers };
}

/** What a turn measured, or why there is nothing: the other cases still tell something. */
async function tryTurn(
  benchCase: BenchCase,
  contender: Contender,
  plan: TurnPlan,
): Promise<Measurement | string> {
  try {
    return await oneTurn(benchCase, contender, plan);
  } catch (error) {
    if (error instanceof ServerRefused) return error.message;
    process.exitCode = 1;
    return `failed: ${messageOf(error)}`;
  }
}

async function oneTurn(benchCase: BenchCase, contender: Contender, plan: TurnPlan): Promise<Measurement> {
  const directory = mkdtempSync(join(plan.directory, "turn-"));
  try {
    return await benchCase.measure({ contender, load: plan.load, directory, flags: plan.flags });
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : `${error}`;
}
