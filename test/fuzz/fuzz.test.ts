// Tests that run the fuzzers for some seconds from fixed seeds, and prove their sensitivity with
// planted faults and altered replies.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Address } from "../support/conversations/lockstep-side.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { startTamperingProxy, type TamperingProxy } from "../support/server/tampering-proxy.ts";
import { atNight, skipVariant } from "../support/whole.ts";
import { BytesInProcess, BytesToServer } from "./bytes-fuzzer.ts";
import { describeFinding, type Finding, runCampaign, writeFinding } from "./campaign.ts";
import { Coverage } from "./coverage.ts";
import type { Fuzzer } from "./fuzzer.ts";
import { GrammarFuzzer } from "./grammar-fuzzer.ts";
import { PLANTED_FAULTS } from "./planted-faults.ts";
import { ServerUnderTest } from "./server-under-test.ts";
import { SplittingInProcess, SplittingToServer } from "./splitting-fuzzer.ts";

const SEED = 140_603_817;
const OURS = { kind: "ours", flags: ["--shards", "3", "--acceptors", "2"] } as const;

async function find(
  fuzzer: Fuzzer,
  runs: number,
  shrinkMs = 200,
  firstSeed = SEED,
): Promise<Finding | undefined> {
  try {
    // However busy the machine is, as many runs.
    const limits = { firstSeed, runs, ms: Number.POSITIVE_INFINITY, shrinkMs };
    return (await runCampaign(fuzzer, limits)).finding;
  } finally {
    await fuzzer.stop();
  }
}

async function findNothing(fuzzer: Fuzzer, runs: number): Promise<void> {
  const finding = await find(fuzzer, runs);
  if (finding === undefined) return;
  const path = writeFinding(fuzzer, fuzzer.draw(finding.seed), finding);
  assert.fail(describeFinding(fuzzer, finding, path));
}

describe("fuzz", { concurrency: 3 }, () => {
  it("finds nothing with bytes in process", () => findNothing(new BytesInProcess(), atNight(400, 200)));

  it("finds nothing with bytes to the server", async (t) => {
    if (canRun(t, NEEDS.ours)) await findNothing(new BytesToServer(OURS), atNight(120, 60));
  });

  it("finds nothing with splitting in process", () => findNothing(new SplittingInProcess(), atNight(12, 6)));

  it("finds nothing with splitting to the server", async (t) => {
    if (canRun(t, NEEDS.ours)) await findNothing(new SplittingToServer(OURS), atNight(40, 20));
  });

  it("finds nothing with grammar to the server and beanstalkd", async (t) => {
    if (!canRun(t, NEEDS.ours, NEEDS.beanstalkd)) return;
    const coverage = new Coverage();
    await findNothing(new GrammarFuzzer(OURS, coverage), 120);
    assert.deepEqual(coverage.missing(), []);
  });
});

describe("fuzz: finds planted faults in process", () => {
  const RUNS = { bytes: 1500, splitting: 20 } as const;
  /** Runs that last found nothing before one did, for the faults whose search takes long. */
  const PASSED_OVER: Readonly<Record<string, number>> = {
    "a line of 225 bytes is accepted": 91,
    "a byte is dropped after a bad body": 138,
    "a number just above u32 is accepted": 92,
    "an id just above u64 is accepted": 279,
    "a blank at the end of a command is ignored": 198,
    "a NUL in a tube's name passes": 355,
  };
  const SHRINK_MS = 50;

  it("passes runs over for faults that exist", () => {
    const names = PLANTED_FAULTS.map(({ name }) => name);
    for (const name of Object.keys(PASSED_OVER)) assert.ok(names.includes(name), name);
  });

  for (const [index, { name, fuzzer, plant }] of PLANTED_FAULTS.entries()) {
    it(name, { skip: skipVariant(index, 3) }, async () => {
      const planted =
        fuzzer === "bytes" ? new BytesInProcess(undefined, plant) : new SplittingInProcess(plant);
      const finding = await find(planted, RUNS[fuzzer], SHRINK_MS, SEED + (PASSED_OVER[name] ?? 0));
      assert.ok(finding?.isRepeatable, `not found in ${RUNS[fuzzer]} runs`);
    });
  }
});

describe("fuzz: finds replies altered on their way", { concurrency: 3 }, () => {
  const altered = [
    { what: "a wrong error", pattern: /BAD_FORMAT\r\n/, replacement: "UNKNOWN_COMMAND\r\n", passes: 5 },
    { what: "a lost reply", pattern: /NOT_FOUND\r\n/, replacement: "", passes: 3 },
    { what: "one reply too many", pattern: /DELETED\r\n/, replacement: "DELETED\r\nDELETED\r\n", passes: 1 },
    { what: "one byte of a body", pattern: /(RESERVED \d+ 5\r\n)h/, replacement: "$1H", passes: 0 },
  ];
  const RUNS = 80;
  /** A reply that has not come by then is taken for lost. */
  const LOST_MS = 1000;
  for (const [index, { what, pattern, replacement, passes }] of altered.entries()) {
    it(what, { skip: skipVariant(index, 2) }, async (t) => {
      if (!canRun(t, NEEDS.beanstalkd)) return;
      const through = (address: Address) => startTamperingProxy(address, pattern, replacement, passes);
      // The same input does not repeat an alteration, so the finding is not shortened.
      const finding = await find(
        new GrammarFuzzer({ kind: "beanstalkd-1.12", flags: [], through }, undefined, LOST_MS),
        RUNS,
        0,
      );
      assert.ok(finding !== undefined, `not found in ${RUNS} runs`);
    });
  }

  it("finds a limit that is off by one", async (t) => {
    if (!canRun(t, NEEDS.beanstalkd)) return;
    const finding = await find(
      new GrammarFuzzer({ kind: "beanstalkd-1.12", flags: ["-z", "69999"] }, undefined, LOST_MS),
      300,
      0,
    );
    assert.ok(finding !== undefined, "not found");
  });
});

it("fuzz: a restarted server leaves no connection to the one before open", async (t) => {
  if (!canRun(t, NEEDS.beanstalkd)) return;
  const open = new Set<number>();
  const through = async (address: Address): Promise<TamperingProxy> => {
    const proxy = await startTamperingProxy(address, /$^/, "", 0);
    open.add(proxy.address.port);
    const close = (): void => {
      open.delete(proxy.address.port);
      proxy.close();
    };
    return { ...proxy, close };
  };
  const server = new ServerUnderTest({ kind: "beanstalkd-1.12", flags: [], through });
  for (let start = 1; start <= 2; start++) {
    await server.get();
    assert.equal(open.size, 1);
    await server.stop();
    assert.equal(open.size, 0);
  }
});
