// Checks a property with fast-check from a printed seed: SEED=n with the printed command runs the
// same cases again.

import { relative } from "node:path";
import type { TestContext } from "node:test";
import { assert as fastCheckAssert, type IProperty, type IPropertyWithHooks } from "fast-check";
import { drawnSeed } from "./seeded-random.ts";

const { SEED } = process.env;

/** The seed of this process, for tests that draw numbers of their own. */
export const seed: number = SEED === undefined ? drawnSeed() : Number(SEED);

/** Says the seed in the test's output. */
export function printSeed(t: TestContext): void {
  const path = t.filePath === undefined ? "test/…" : relative(process.cwd(), t.filePath);
  // Where several files share a process, each is a suite named after itself.
  const [suite = path] = t.fullName.split(" > ");
  const file = suite.endsWith(".test.ts") ? suite : path;
  t.diagnostic(
    `again: SEED=${seed} bin/node --test --test-name-pattern='${t.name.replaceAll("'", ".")}' ${file}`,
  );
}

/** Fails with the smallest counter-example found. */
export function checkProperty<Values>(
  t: TestContext,
  property: IProperty<Values> | IPropertyWithHooks<Values>,
  runs = 200,
): void {
  printSeed(t);
  fastCheckAssert(property, { seed: seed | 0, numRuns: runs });
}
