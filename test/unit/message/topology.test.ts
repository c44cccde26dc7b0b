// Tests of the counters' layout: each slot has one name, and no range of slots runs into another.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { COMMAND_TIMES } from "../../../src/message/command-times.ts";
import { END_REASONS } from "../../../src/message/end-reason.ts";
import { LOG_FIGURES } from "../../../src/message/log-figures.ts";
import { COUNTERS_PER_ROLE, Counter } from "../../../src/message/topology.ts";
import { Op } from "../../../src/protocol/commands.ts";

/** The counters that stand for several slots, with their number. */
const RANGES: Readonly<Record<string, number>> = {
  Closed: END_REASONS.length,
  Commands: Math.max(...Object.values(Op)) + 1,
  CommandTimes: COMMAND_TIMES,
  LogFigures: LOG_FIGURES,
};

describe("the counters of a role", () => {
  it("have one name for each slot", () => {
    const names: string[] = [];
    for (const [name, first] of Object.entries(Counter)) {
      for (let slot: number = first; slot < first + (RANGES[name] ?? 1); slot++) {
        assert.equal(names[slot], undefined, `${name} and ${names[slot]} share slot ${slot}`);
        names[slot] = name;
      }
    }
    assert.ok(names.length <= COUNTERS_PER_ROLE, `${names.length} slots`);
  });
});
