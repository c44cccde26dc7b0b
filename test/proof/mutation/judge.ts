// Verdict on a mutant: it meets the stages of its room one after the other, and of each only the
// test files that execute the changed place, until a test fails.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { type Cost, coverageOf, executes, ROOT, runChild, type TestFile } from "./covered.ts";
import { keptReason } from "./kept.ts";
import { applied, type Mutant } from "./mutants.ts";
import { STAGES, type Stage, testsOf } from "./rooms.ts";

/** A test file that costs more by itself is not run for each mutant. */
const TEST_COST_MAX: Cost = { cpuMs: 120_000, ms: 600_000 };
/** A mutant may cost so many times as much as its tests do without it, and some more. */
const DEARER = 4;
const GRACE_CPU_MS = 3000;
/** Other processes may take the cores meanwhile; this only ends what waits for good. */
const SLOWER = 20;
const GRACE_MS = 60_000;

export interface Verdict {
  readonly mutant: Mutant;
  /** The stage whose tests killed it; undefined for a survivor. */
  readonly by: Stage | undefined;
  /** Whether the tests did not come to an end. */
  readonly endless: boolean;
  /** The test that failed, or how many test files let it live. */
  readonly note: string;
  /** Of a survivor: why no test can kill it, from the kept list. */
  readonly kept?: string;
}

/** Judges mutants of one room. */
export class Judge {
  readonly #room: string;
  readonly #folder: string;
  readonly #stages: readonly Stage[];
  readonly #env: Readonly<Record<string, string>>;
  /** The test files of each stage that was needed so far, the cheapest first. */
  readonly #tests = new Map<Stage, readonly TestFile[]>();

  /** `folder` takes the changed sources; `seed` is what tests with random cases draw from. */
  constructor(room: string, folder: string, seed: number, stages: readonly Stage[] = STAGES) {
    this.#room = room;
    this.#folder = folder;
    this.#stages = stages;
    this.#env = { SEED: `${seed}`, NODE_COMPILE_CACHE: join(folder, "compiled") };
  }

  async judge(mutant: Mutant): Promise<Verdict> {
    const source = join(ROOT, mutant.file);
    const text = join(this.#folder, mutant.file);
    mkdirSync(dirname(text), { recursive: true });
    writeFileSync(text, applied(readFileSync(source, "utf8"), mutant));
    const url = pathToFileURL(source).href;
    const env = { ...this.#env, MUTANT_URL: url, MUTANT_TEXT: text };
    let played = 0;
    for (const stage of this.#stages) {
      const fitting = (await this.#testsOf(stage)).filter((each) => executes(each, url, mutant.coveredAt));
      if (fitting.length === 0) continue;
      played += fitting.length;
      const files = fitting.map(({ path }) => path);
      const { code, said } = await runChild(files, env, limitOf(fitting));
      if (code === 0) continue;
      const note = /^FAILED (.*)$/m.exec(said)?.[1] ?? said.trim().split("\n")[0] ?? "";
      return { mutant, by: stage, endless: code === "timeout", note: code === "timeout" ? "no end" : note };
    }
    const note = played === 0 ? "no test executes it" : `${played} test files`;
    const kept = keptReason(mutant);
    return { mutant, by: undefined, endless: false, note, ...(kept === undefined ? {} : { kept }) };
  }

  async #testsOf(stage: Stage): Promise<readonly TestFile[]> {
    const known = this.#tests.get(stage);
    if (known !== undefined) return known;
    const files: TestFile[] = [];
    for (const path of testsOf(this.#room, stage)) {
      const file = await coverageOf(path, `src/${this.#room}/`, TEST_COST_MAX);
      if (file === undefined) console.log(`  left out: ${path} fails or takes long in such a process`);
      else files.push(file);
    }
    files.sort((a, b) => a.cpuMs - b.cpuMs);
    this.#tests.set(stage, files);
    return files;
  }
}

function limitOf(files: readonly Cost[]): Cost {
  const sum = (costs: readonly number[]): number => costs.reduce((all, each) => all + each, 0);
  return {
    cpuMs: DEARER * sum(files.map(({ cpuMs }) => cpuMs)) + GRACE_CPU_MS,
    ms: SLOWER * sum(files.map(({ ms }) => ms)) + GRACE_MS,
  };
}
