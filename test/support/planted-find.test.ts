// Tests of findings: a planted bug that was found counts, and a plant that throws by itself
// doesn't, however deeply its error is wrapped.

import assert from "node:assert/strict";
import { test } from "node:test";
import { simulateHttp } from "../simulation/http-simulation.ts";
import { findOf } from "./planted-find.ts";

test("a find is reported by its first line", () => {
  const cause = new assert.AssertionError({ message: "1 is not 2" });
  assert.equal(
    findOf(new Error("seed 1, step 2: 1 is not 2\n  last: put", { cause })),
    "seed 1, step 2: 1 is not 2",
  );
});

test("a plant whose method is gone has found nothing", async () => {
  const wrapped = new Error("seed 1, step 2", {
    cause: new Error("inner", { cause: new TypeError("x.y is not a function") }),
  });
  assert.throws(() => findOf(wrapped), /does not fit any more/);
  const plant = ({ server }: { server: object }): void => {
    (server as { gone: () => void }).gone.bind(server);
  };
  const error = await simulateHttp({ seed: 1, steps: 5, plant }).catch((thrown: unknown) => thrown);
  assert.throws(() => findOf(error), /does not fit any more/);
});
