// Tests of fuzzing by coverage: the kept corpus plays, guidance finds what chance does not, and
// planted faults are found.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CommandParser } from "../../../src/protocol/command-parser.ts";
import { Request } from "../../../src/protocol/request.ts";
import { SeededRandom } from "../../support/seeded-random.ts";
import { readCorpus } from "./corpus.ts";
import { failureOf, fuzz, type GuidedResult, shortened } from "./guided.ts";
import { TARGETS, type Target } from "./targets.ts";

const ms = Number.POSITIVE_INFINITY;
const random = () => new SeededRandom(28);
const named = (name: string): Target => TARGETS.find((target) => target.name === name)!;

describe("fuzzing by coverage", () => {
  for (const target of TARGETS)
    it(`finds nothing in the corpus of ${target.name}, which reaches more than its seeds`, () => {
      const corpus = readCorpus(target.name);
      const all = fuzz(target, { corpus, random: random(), ms, runs: 0 });
      assert.equal(all.finding, undefined, `${all.finding?.error}`);
      assert.equal(all.played, corpus.length + target.seeds.length);
      const { features } = fuzz(target, { corpus: [], random: random(), ms, runs: 0 });
      assert.ok(all.features > features, `${all.features} features, ${features} of the seeds alone`);
    });

  it("finds a word letter by letter, which chance does not", () => {
    const WORD = "kick!";
    let depth = 0;
    const target: Target = {
      name: "word",
      dictionary: ["."],
      seeds: ["."],
      play: (input) => {
        depth = 0;
        while (depth < WORD.length && input[depth] === WORD.charCodeAt(depth)) depth++;
        if (depth === WORD.length) throw new Error("the whole word");
      },
    };
    const guided = { take: () => [`${depth}`], end: () => {} };
    const blind = { take: () => [], end: () => {} };
    const play = (coverage: typeof guided): GuidedResult =>
      fuzz(target, { corpus: [], random: random(), ms, runs: 200_000, coverage });
    const { finding } = play(guided);
    assert.ok(finding !== undefined, "found");
    assert.equal(Buffer.from(shortened(target, finding.input)).toString(), WORD);
    assert.equal(play(blind).finding, undefined);
  });

  const RUNS = 3000;
  it("finds a parser that looks behind its line", (t) => {
    const { parse } = CommandParser.prototype;
    t.mock.method(
      CommandParser.prototype,
      "parse",
      function (this: CommandParser, bytes: Uint8Array, start: number, end: number) {
        return parse.call(this, bytes, start, Math.min(bytes.length, end + 1));
      },
    );
    const { finding } = fuzz(named("parser"), { corpus: [], random: random(), ms, runs: RUNS });
    assert.match(`${finding?.error}`, /looks at nothing around the line/);
  });

  it("finds a request that keeps a number of the one before", (t) => {
    const { begin } = Request.prototype;
    t.mock.method(Request.prototype, "begin", function (this: Request, op: number) {
      const { count } = this;
      begin.call(this, op);
      this.count = count;
      return this;
    });
    const { finding } = fuzz(named("parser"), { corpus: [], random: random(), ms, runs: RUNS });
    assert.match(`${finding?.error}`, /forgets the line before/);
  });

  it("shortens what it finds to what still fails", () => {
    const target: Target = {
      ...{ name: "pair", dictionary: [], seeds: [] },
      play: (input) => {
        if (input.includes(7) && input.includes(9)) throw new Error("both");
      },
    };
    const long = Uint8Array.from({ length: 500 }, (_, index) => (index % 251) & 15);
    assert.ok(failureOf(target, long) !== undefined);
    assert.deepEqual([...shortened(target, long)].sort(), [7, 9]);
  });
});
