// Our checker as a program for `--checker`: an example for others.

import { createInterface } from "node:readline";
import { linearize } from "./linearize.ts";
import type { Operation } from "./operation.ts";

const STEPS_MAX = 1_000_000;

for await (const line of createInterface(process.stdin)) {
  const { operations } = JSON.parse(line) as { readonly operations: readonly Operation[] };
  console.log(linearize(operations, STEPS_MAX).verdict);
}
