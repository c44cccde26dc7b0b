// Differential tests: random conversations of several clients, from a printed seed, with our server
// and with Debian's beanstalkd. Every reply must be equal.
//
// The seeds are fixed, so that a commit always has the same result; node
// test/oracle/differential-run.ts plays new ones. SEED=n STEPS=m runs one conversation (at each
// topology).

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { runDifferential } from "../support/conversations/differential.ts";
import { InconclusiveError } from "../support/conversations/lockstep-state.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { startTamperingProxy, type TamperingProxy } from "../support/server/tampering-proxy.ts";
import { TOPOLOGIES, type Topology, topologyName } from "../support/topologies.ts";
import { skipVariant } from "../support/whole.ts";

const { SEED, STEPS = "400" } = process.env;
const steps = Number(STEPS);
/** Attempts at a canary while the machine is too slow to tell. */
const ATTEMPTS = 4;
const seeds = SEED === undefined ? [140603817, 777380533, 683203817, 924793607] : [Number(SEED)];

describe("differential", { concurrency: 8 }, () => {
  for (const [index, seed] of seeds.entries()) {
    const topologies = SEED === undefined ? [TOPOLOGIES[index % TOPOLOGIES.length] as Topology] : TOPOLOGIES;
    for (const topology of topologies) {
      it(`ours and beanstalkd 1.12 give the same replies: seed ${seed}, ${steps} steps, ${topologyName(topology)}`, {
        skip: skipVariant(index, 2),
      }, async (t) => {
        if (!canRun(t, NEEDS.ours, NEEDS.beanstalkd)) return;
        const result = await runDifferential({ seed, steps, tested: topology });
        assert.ok(result.replies > steps / 2, `only ${result.replies} replies were compared`);
      });
    }
  }

  it("finds no difference between two beanstalkds", async (t) => {
    if (!canRun(t, NEEDS.beanstalkd)) return;
    const result = await runDifferential({ seed: 7, steps: 600, tested: "beanstalkd-1.12" });
    assert.ok(result.replies > 200, `only ${result.replies} replies were compared`);
    for (const word of ["INSERTED", "RESERVED", "DELETED", "NOT_FOUND", "TIMED_OUT", "OK", "BAD_FORMAT"]) {
      assert.ok((result.repliesByWord.get(word) ?? 0) > 0, `no conversation had a reply ${word}`);
    }
  });

  const canaries = [
    { what: "another job reserved", pattern: /RESERVED 1?\d /, replacement: "RESERVED 99 ", passes: 3 },
    { what: "an id off by one", pattern: /INSERTED 9\r/, replacement: "INSERTED 10\r", passes: 0 },
    { what: "a wrong counter", pattern: /reserves: \d+/, replacement: "reserves: 77", passes: 1 },
    { what: "a missing tube", pattern: /\n- a\n/, replacement: "\n- q\n", passes: 0 },
    { what: "one reply too many", pattern: /DELETED\r\n/, replacement: "DELETED\r\nDELETED\r\n", passes: 1 },
    { what: "a lost reply", pattern: /USING a\r\n/, replacement: "", passes: 1 },
    { what: "one byte of a body", pattern: /(FOUND \d+ \d+\r\n)[ab]/, replacement: "$1c", passes: 0 },
  ];
  for (const [index, { what, pattern, replacement, passes }] of canaries.entries()) {
    it(`finds ${what}`, { skip: skipVariant(index, 2) }, async (t) => {
      if (!canRun(t, NEEDS.beanstalkd)) return;
      for (let attempt = 1; ; attempt++) {
        let proxy: TamperingProxy | undefined;
        const run = runDifferential({
          seed: 7,
          steps: 600,
          tested: "beanstalkd-1.12",
          settleMs: 2000,
          attempts: 1,
          through: async (address) => {
            proxy = await startTamperingProxy(address, pattern, replacement, passes);
            return proxy.address;
          },
        });
        try {
          await assert.rejects(run, (error: Error) => {
            // The machine was too slow before there was anything to alter.
            if (error instanceof InconclusiveError && proxy?.altered() === 0 && attempt < ATTEMPTS)
              return true;
            assert.match(error.message, /seed 7, step \d+/);
            assert.equal(proxy?.altered(), 1);
            return true;
          });
          if (proxy?.altered() === 1) return;
        } finally {
          proxy?.close();
        }
      }
    });
  }
});
