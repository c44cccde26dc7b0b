import assert from "node:assert/strict";
import { test } from "node:test";
import { Engine } from "../../../../src/engine/engine.ts";
import { statsJobText } from "../../../../src/shard/sessions/job-text.ts";
import { unheardEffects } from "../../../support/in-process/effects.ts";

test("statsJobText never shows a negative age, also for a put line read a moment after the shard's clock", () => {
  const engine = new Engine({ effects: unheardEffects(), ownsDefaultTube: true });
  const session = engine.session(0);
  engine.use(session, "default");
  const job = {
    id: 1,
    pri: 0,
    delaySeconds: 0,
    delayMillis: 0,
    ttrSeconds: 60,
    bodyBytes: 0,
    atMs: 1000.004,
  };
  engine.put(session, job, engine.bodies.allocate(0), 1000);
  assert.match(statsJobText(engine, engine.find(1), 1000, false, 0), /^age: 0$/m);
  assert.match(statsJobText(engine, engine.find(1), 2000.005, false, 0), /^age: 1$/m);
});
