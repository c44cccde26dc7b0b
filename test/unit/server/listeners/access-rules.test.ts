// Tests of the warnings about certificates that expire soon.

import assert from "node:assert/strict";
import { test } from "node:test";
import { expiryWarnings } from "../../../../src/server/listeners/access-rules.ts";

const DAY_MS = 86_400_000;
const NOW = Date.UTC(2026, 10, 22);

test("a warning about a certificate starts 14 days before its end", () => {
  const warningsOf = (endsAtMs: number): string[] => expiryWarnings([{ name: "a:1", endsAtMs }], NOW);
  assert.deepEqual(warningsOf(NOW + 14 * DAY_MS + 1), []);
  assert.match(warningsOf(NOW + 14 * DAY_MS).join(), /^the certificate of a:1 expires on .* 06 Dec 2026/);
  assert.match(warningsOf(NOW + 1).join(), /expires on/);
  assert.match(warningsOf(NOW - 1).join(), /expired on/);
});
