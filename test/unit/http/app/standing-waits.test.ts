// Tests of waits whose token expires: each is ended, also one that begins after all earlier ones
// are over.

import assert from "node:assert/strict";
import { it } from "node:test";
import { StandingWaits } from "../../../../src/http/app/authentication.ts";

const LOOK_EACH_MS = 1000;

it("ends a wait whose token expires, again after there were none for a while", (t) => {
  t.mock.timers.enable({ apis: ["setInterval"] });
  const waits = new StandingWaits();
  for (const round of ["the first", "a later one"]) {
    let isValid = true;
    let ended = 0;
    const remove = waits.add({ stands: () => isValid, end: () => ended++ });
    t.mock.timers.tick(LOOK_EACH_MS);
    assert.equal(ended, 0, `${round} goes on with a valid token`);
    isValid = false;
    t.mock.timers.tick(LOOK_EACH_MS);
    assert.equal(ended, 1, `${round} ends with its token`);
    remove();
    t.mock.timers.tick(LOOK_EACH_MS);
    assert.equal(ended, 1, `${round} ends once`);
  }
});
