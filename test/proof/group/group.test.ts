// Tests of a campaign on a group: it finds nothing in a round, and a planted bug in a few.
// `npm run proof:group` plays more.

import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import "../../support/machine/own-network.ts";
import { noNamespaces } from "../../support/machine/namespaces.ts";
import { SeededRandom } from "../../support/seeded-random.ts";
import { missingNats } from "../../support/server/nats-cluster.ts";
import { atNight } from "../../support/whole.ts";
import { OurJudge } from "../histories/judges.ts";
import { GroupRounds } from "./group-rounds.ts";
import type { NemesisName } from "./nemeses.ts";
import { lineOf, tableOf } from "./round-lines.ts";

/**
 * Its first partition leaves the primary alone with its clients, for longer than the lease. On a
 * busy machine, such a round may lose nothing.
 */
const PLANTED_SEED = 46;
const PLANTED_ROUNDS_MAX = 12;

describe("a group under faults", { skip: missingNats() ?? noNamespaces() ?? false }, () => {
  const judge = new OurJudge();
  after(() => judge.close());

  it("keeps what it has acknowledged, and its replies have an order", async (t) => {
    const group = await GroupRounds.start({ flags: [], hasNetwork: true, hasClocks: false, judge });
    t.after(() => group.end());
    const random = new SeededRandom(1);
    for (const nemesis of atNight<NemesisName[]>(["kill", "membership"], ["kill"])) {
      const report = await group.play(nemesis, `test-${nemesis}`, random);
      t.diagnostic(lineOf(report));
      assert.deepEqual(report.finds, [], group.said);
      assert.equal(report.verdicts.accepted, 3, "a history of each tube is judged");
      assert.ok(report.puts > 10 && report.lone.acknowledged > 10, "there was load to say something");
      assert.match(tableOf([report]), /^\| all \| 1 \| \d/m);
    }
  });

  it("finds servers that answer before the group has a change", async (t) => {
    const flags = ["--replicate-wait", "nothing"];
    const group = await GroupRounds.start({ flags, hasNetwork: true, hasClocks: false, judge });
    t.after(() => group.end());
    for (let round = 0; round < PLANTED_ROUNDS_MAX; round++) {
      const random = new SeededRandom(PLANTED_SEED);
      const { what, lost, finds } = await group.play("partition", `planted-${round}`, random);
      t.diagnostic(`${what}: ${lost} lost, ${finds.length} finds`);
      if (lost > 0) return;
    }
    assert.fail(`nothing was found in ${PLANTED_ROUNDS_MAX} rounds`);
  });
});
