// Tests of pages of schedules: which names a page has, and whether more follow, in whatever order
// they were set and with however many steps.

import assert from "node:assert/strict";
import { it } from "node:test";
import type { SchedulePage } from "../../../../src/protocol/schedule-list.ts";
import { ScheduleListing } from "../../../../src/shard/schedules/schedule-listing.ts";
import { ShardSession } from "../../../../src/shard/sessions/shard-session.ts";
import { addSchedule } from "../../../support/in-process/add-schedule.ts";
import { printSeed, seed } from "../../../support/seeded-property.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";
import { EngineBench } from "../../engine/engine-bench.ts";

function set({ engine }: EngineBench, name: string, tube: string, id: number): void {
  addSchedule(engine.schedules, id, name, { tube }, { version: id });
}

it("a page has the first names after one, and says whether there are more", (t) => {
  printSeed(t);
  const random = new SeededRandom(seed);
  const bench = new EngineBench();
  const session = new ShardSession(bench.engine.session(0), 0, 0);
  const all: { name: string; tube: string }[] = [];
  for (let id = 1; id <= 21; id++) {
    const name = `s${String(random.below(1e9)).padStart(9, "0")}`;
    if (all.some((each) => each.name === name)) continue;
    all.push({ name, tube: random.pick(["t", "u"])! });
    set(bench, name, all.at(-1)!.tube, id);
  }
  all.sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const tube of [undefined, "t", "u", "v"])
    for (const after of ["", all[0]!.name, all[9]!.name, all.at(-1)!.name])
      for (const stepMax of [1, 4, 1000]) {
        const rest = all.filter((each) => each.name > after && (tube === undefined || each.tube === tube));
        for (const limit of new Set([1, 5, rest.length - 1, rest.length, rest.length + 1, 100])) {
          if (limit < 1) continue;
          let page: SchedulePage | undefined;
          const listing = new ScheduleListing(bench.engine, session, { after, tube, limit }, (found) => {
            page = found;
          });
          while (!listing.step(stepMax));
          listing.finish();
          const names = page!.lines.map(({ name }) => name);
          const expected = rest.slice(0, limit).map(({ name }) => name);
          assert.deepEqual(
            [names, page!.hasMore],
            [expected, rest.length > limit],
            `${limit} after ${after}`,
          );
        }
      }
});

it("says that there are more, in whatever order those come that the page has no room for", () => {
  const names = ["a", "b", "c", "d", "e"];
  for (const order of [names, names.toReversed(), ["c", "a", "e", "b", "d"]]) {
    const bench = new EngineBench();
    for (const [index, name] of order.entries()) set(bench, name, "t", index + 1);
    const session = new ShardSession(bench.engine.session(0), 0, 0);
    for (let limit = 1; limit <= 6; limit++) {
      let page: SchedulePage | undefined;
      const listing = new ScheduleListing(
        bench.engine,
        session,
        { after: "", tube: undefined, limit },
        (found) => {
          page = found;
        },
      );
      while (!listing.step(2));
      listing.finish();
      assert.deepEqual(
        [page!.lines.map(({ name }) => name), page!.hasMore],
        [names.slice(0, limit), limit < names.length],
        `${limit} of ${order.join(" ")}`,
      );
    }
  }
});
