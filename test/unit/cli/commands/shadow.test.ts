// Tests of what the connections of a shadow may hold for a new server that hangs, and that they
// give it back.

import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { it } from "node:test";
import { HeldBytes, JobIdMap, ShadowConnection, ShadowReport } from "../../../../src/cli/commands/shadow.ts";

const BODY = "x".repeat(1000);
const PUT = Buffer.from(`put 0 0 60 ${BODY.length}\r\n${BODY}\r\n`);

it("all connections together hold no more than the bound, and each gives back what it held", () => {
  const report = new ShadowReport();
  const held = new HeldBytes(10_000);
  const never = new Promise<Socket>(() => {});
  const connections = Array.from(
    { length: 4 },
    (_, client) =>
      new ShadowConnection({
        ...{ held, report, ids: new JobIdMap(), dial: () => never, token: undefined },
        client: `${client}`,
      }),
  );
  for (let round = 0; round < 3; round++) for (const each of connections) each.fromClient(PUT);
  assert.ok(report.counts.dropped > 0, "the bound is met");
  assert.ok(report.counts.dropped < connections.length, "others go on");
  assert.equal(held.isOver, false, "who is dropped gives back what it held");
  // A command that isn't whole counts, too.
  const partial = new HeldBytes(900);
  const one = new ShadowConnection({
    ...{ held: partial, report, ids: new JobIdMap(), dial: () => never, token: undefined, client: "one" },
  });
  const before = report.counts.dropped;
  one.fromClient(PUT.subarray(0, 800));
  assert.equal(report.counts.dropped, before);
  one.fromClient(PUT.subarray(800, 950));
  assert.equal(report.counts.dropped, before + 1);
  for (const each of connections) each.end();
  held.add(10_000);
  assert.equal(held.isOver, false, "nothing is left of connections that have ended");
});
