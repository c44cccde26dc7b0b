import assert from "node:assert/strict";
import { it } from "node:test";
import { attentionOf, type Signs } from "../../../../src/http/admin/attention.ts";
import { NO_SIGNS } from "../../../../src/http/queue/health.ts";
import { TubeEntry } from "../../../../src/http/state/tube-cache.ts";
import { TUBE_FIELDS, TubeField } from "../../../../src/schema/tube.ts";

const AT_MS = 1_000_000;

function tube(name: string, fields: Partial<Record<keyof typeof TubeField, number>>): TubeEntry {
  const row = new Float64Array(TUBE_FIELDS);
  row[TubeField.oldestReadyAtMs] = Number.POSITIVE_INFINITY;
  for (const [field, value] of Object.entries(fields))
    row[TubeField[field as keyof typeof TubeField]] = value;
  return new TubeEntry(name, 0, row, AT_MS);
}

const WELL: Signs = {
  tubes: [tube("well", { ready: 5, watchers: 1, oldestReadyAtMs: AT_MS - 60_000 })],
  atMs: AT_MS,
  puts: { ok: true, status: "ok", detail: "ok" },
  isConfigTaken: true,
  memoryShare: 0.8,
  reserves: 100,
  timeouts: 5,
  timeoutsTube: "well",
  grown: () => 0,
  syncs: { count: 1000, p99Seconds: 0.1 },
  damaged: 0,
  flows: NO_SIGNS,
};

const said = (signs: Partial<Signs>): string[] =>
  attentionOf({ ...WELL, ...signs }).map(({ tube, about, text }) => `${about ?? tube ?? "server"}: ${text}`);

it("nothing needs attention at or below the limits", () => {
  assert.deepEqual(said({}), []);
  assert.deepEqual(said({ reserves: 0, timeouts: 0 }), []);
});

it("timeouts need attention from one in twenty on, with the tube that has most", () => {
  assert.deepEqual(said({ timeouts: 6 }), [
    "well: 6 % of 100 reservations in the last ten minutes were not done within their time to run, most of them here",
  ]);
  assert.deepEqual(said({ reserves: 0, timeouts: 50, timeoutsTube: undefined }), [
    "server: 100 % of 50 reservations in the last ten minutes were not done within their time to run",
  ]);
});

it("a handful of timeouts needs no attention, whatever its share", () => {
  assert.deepEqual(said({ reserves: 49, timeouts: 30 }), []);
  assert.deepEqual(said({ reserves: 50, timeouts: 4 }), []);
  assert.equal(said({ reserves: 50, timeouts: 5 }).length, 1);
});

/** Counters of a tube over the last ten minutes. */
const grownBy =
  (
    counts: Record<string, Partial<Record<"timeouts" | "disconnects" | "reserves", number>>>,
  ): Signs["grown"] =>
  (tube, series) =>
    counts[tube]?.[series] ?? 0;

it("a job that crashes its workers is named, with how often, whatever its share", () => {
  const crashed = { lostJob: 17, lostJobReserves: 1865, lostJobDisconnects: 1865 };
  const grown = grownBy({ mails: { disconnects: 4, reserves: 1e6 } });
  const all = attentionOf({ ...WELL, tubes: [tube("mails", crashed)], grown });
  assert.deepEqual(all, [
    {
      ...{ level: "bad", tube: "mails", about: "job 17 of mails", page: "#/jobs/17" },
      text: "was reserved 1,865 times, and its worker's connection ended each time",
      todo: "It may crash its workers: delete it, or mend them. With max-attempts, the tube buries such jobs.",
    },
  ]);
  const saidOf = (fields: Parameters<typeof tube>[1]): string[] =>
    said({ tubes: [tube("mails", { ...crashed, ...fields })], grown });
  assert.match(saidOf({ lostJobDisconnects: 1864 })[0]!, /ended each time$/, "it may be reserved now");
  assert.match(saidOf({ lostJobDisconnects: 1863 })[0]!, /ended 1,863 times$/);
  assert.deepEqual(saidOf({ lostJobDisconnects: 2 }), [], "two may be chance");
  assert.deepEqual(
    said({ tubes: [tube("mails", crashed)], grown: grownBy({ mails: { disconnects: 3 } }) }),
    [],
  );
});

it("workers that end with different jobs need attention from one reservation in five on", () => {
  const tubes = [tube("mails", { lostJob: 17, lostJobReserves: 1, lostJobDisconnects: 1 })];
  const grown = (reserves: number): Signs["grown"] => grownBy({ mails: { disconnects: 20, reserves } });
  assert.deepEqual(said({ tubes, grown: grown(99) }), [
    "mails: 20 times in ten minutes, a worker's connection ended while it held a job",
  ]);
  assert.deepEqual(said({ tubes, grown: grown(100) }), []);
});

it("of many tubes that lose workers, two are named and the others counted", () => {
  const tubes = ["a", "b", "c", "d"].map((name) => tube(name, {}));
  const grown = grownBy({
    a: { disconnects: 5 },
    b: { disconnects: 8 },
    c: { disconnects: 7 },
    d: { disconnects: 6 },
  });
  assert.deepEqual(
    attentionOf({ ...WELL, tubes, grown }).map(({ tube, page }) => [tube, page]),
    [
      ["b", "#/tubes/b?state=ready"],
      ["c", "#/tubes/c?state=ready"],
      [null, "#/tubes?sort=disconnects"],
    ],
  );
});

it("slow syncs need attention if one in a hundred takes over 100 ms, from a hundred on", () => {
  assert.deepEqual(said({ syncs: { count: 100, p99Seconds: 0.18 } }), [
    "server: one sync in a hundred takes over 180 ms (limit 100)",
  ]);
  assert.deepEqual(said({ syncs: { count: 99, p99Seconds: 0.18 } }), []);
});

it("damage in the log needs attention until it is repaired", () => {
  const [damage] = attentionOf({ ...WELL, damaged: 1 });
  assert.equal(damage!.text, "1 damaged place is in its files");
  assert.deepEqual([damage!.level, damage!.page], ["bad", "#/log"]);
  assert.deepEqual(said({ damaged: 1200 }), ["server: 1,200 damaged places are in its files"]);
});

it("serious problems come first: refused puts, damage, unwatched tubes; then memory, configuration, syncs, timeouts, buried jobs, old ones", () => {
  const tubes = [
    tube("old", { ready: 1, watchers: 1, oldestReadyAtMs: AT_MS - 125_000 }),
    tube("both/sides", { ready: 1000, buried: 2, oldestReadyAtMs: AT_MS - 90_000 }),
  ];
  const syncs = { count: 100, p99Seconds: 0.5 };
  const signs = { tubes, syncs, damaged: 2, timeouts: 50, isConfigTaken: false, memoryShare: 0.81 };
  const words = [
    "damaged places",
    "no worker watches",
    "memory",
    "configuration",
    "sync",
    "time to run",
    "buried",
    "has waited for 2 min",
  ];
  const found = said(signs);
  assert.equal(found.length, words.length);
  for (const [index, word] of words.entries()) assert.match(found[index]!, new RegExp(word));
  const puts = { ok: false, status: "disk-full", detail: "the disk is full" };
  const all = attentionOf({ ...WELL, ...signs, puts });
  assert.deepEqual([all[0]!.text, all[0]!.level], ["the disk is full", "bad"]);
  assert.equal(all.length, words.length, "puts refused for memory are reported once");
});

it("each problem names a remedy and a page", () => {
  const tubes = [tube("both/sides", { ready: 1000, buried: 2 })];
  const [ready, buried] = attentionOf({ ...WELL, tubes });
  assert.deepEqual(ready, {
    level: "bad",
    tube: "both/sides",
    page: "#/tubes/both%2Fsides?state=ready",
    text: "1,000 ready, and no worker watches",
    todo: "Start the workers.",
  });
  assert.equal(buried!.page, "#/tubes/both%2Fsides?state=buried");
});

it("A paused tube is no tube without workers, nor one whose workers hang", () => {
  const paused = { ready: 1000, pauseUntilMs: AT_MS + 1, oldestReadyAtMs: AT_MS - 125_000 };
  const tubes = [tube("halted", paused), tube("watched", { ...paused, watchers: 1 })];
  assert.deepEqual(said({ tubes }), [
    "halted: paused, with 1,000 ready",
    "watched: paused, with 1,000 ready",
  ]);
  tubes.push(tube("over", { ready: 3, pauseUntilMs: AT_MS }));
  assert.equal(said({ tubes })[0], "over: 3 ready, and no worker watches");
});

it("A tube that was paused by hand is named also while nothing in it is ready", () => {
  const pause = { pauseSeconds: 60, pauseUntilMs: AT_MS + 1 };
  assert.deepEqual(said({ tubes: [tube("halted", pause)] }), ["halted: paused"]);
  assert.deepEqual(said({ tubes: [tube("moment", { ...pause, pauseSeconds: 59 })] }), []);
  const lasting = { pauseSeconds: Number.POSITIVE_INFINITY, pauseUntilMs: Number.POSITIVE_INFINITY };
  assert.deepEqual(said({ tubes: [tube("for good", lasting)] }), ["for good: paused"]);
});

it("A tube in which one reserve in five times out needs attention, though few do in all", () => {
  const grown = (tube: string, series: string): number =>
    series === "disconnects" ? 0 : tube === "poisoned" ? 21 : series === "timeouts" ? 0 : 100;
  const tubes = [tube("poisoned", { ready: 1, watchers: 1, oldestReadyAtMs: AT_MS })];
  const found = "poisoned: 21 timeouts in the last ten minutes";
  assert.deepEqual(said({ tubes, grown, reserves: 10_000, timeouts: 21 }), [found]);
  assert.deepEqual(said({ tubes, grown: grownBy({ poisoned: { timeouts: 21, reserves: 105 } }) }), []);
  assert.deepEqual(said({ tubes, grown: grownBy({ poisoned: { timeouts: 4, reserves: 4 } }) }), []);
  // Named once, by the rule for all tubes.
  assert.equal(said({ tubes, grown, reserves: 100, timeouts: 21, timeoutsTube: "poisoned" }).length, 1);
});

it("Jobs of a dead-letter tube are returned, and no workers started for them", () => {
  const dead = tube("mails-dead", { ready: 1130, holdsDead: 1 });
  const [found, ...others] = attentionOf({ ...WELL, tubes: [dead] });
  assert.deepEqual(others, []);
  assert.deepEqual([found!.level, found!.text], ["warn", "1,130 ready in a dead-letter tube"]);
  assert.match(found!.todo, /Find out why they died.* Redrive on the page of the tube returns them\.$/);
  assert.deepEqual(said({ tubes: [tube("mails-dead", { ready: 1, holdsDead: 1, watchers: 1 })] }), []);
});

it("of many tubes with the same problem two are named, so others stay visible", () => {
  const tubes = Array.from({ length: 5 }, (_, n) => tube(`t${n}`, { ready: n + 1, buried: n < 3 ? 1 : 0 }));
  assert.deepEqual(said({ tubes }), [
    "t4: 5 ready, and no worker watches",
    "t3: 4 ready, and no worker watches",
    "3 more tubes: have ready jobs, and no worker watches",
    "t0: 1 buried",
    "t1: 1 buried",
    "t2: 1 buried",
  ]);
  const [, named, others] = attentionOf({ ...WELL, tubes });
  assert.deepEqual([others!.page, others!.todo], ["#/tubes?sort=ready", named!.todo]);
});

it("batches need attention if they wait for a person: members are buried, or failed while jobs wait", () => {
  const batches = [
    [1, "well", 0, 0, 3],
    [2, "failed-alone", 2, 0, 0],
    [3, "failed", 1, 0, 2],
    [4, "stuck", 3, 1, 5],
  ] as const;
  assert.deepEqual(said({ flows: { ...NO_SIGNS, batches } }), [
    "batch stuck: 1 member is buried, so the batch doesn't end",
    "batch failed: 1 member has failed, and 2 jobs wait for the batch",
  ]);
  const many = [5, 6, 7, 8].map((number) => [number, `b-${number}`, 0, 2, 0] as const);
  assert.deepEqual(said({ flows: { ...NO_SIGNS, batches: many } }), [
    "batch b-5: 2 members are buried, so the batch doesn't end",
    "batch b-6: 2 members are buried, so the batch doesn't end",
    "2 more batches: have buried members, so they don't end",
  ]);
});

it("schedules need attention if they are late, missed their last runs, or are paused", () => {
  const schedule = (name: string, missed: number) => ({
    ...{ name, lateSeconds: 90, refusal: "TUBE_FULL", missed },
  });
  const of = (...first: ReturnType<typeof schedule>[]) => ({ count: first.length, first });
  const schedules = {
    paused: { count: 5, first: [1, 2, 3].map((each) => schedule(`p${each}`, 0)) },
    refused: of(schedule("n\xc3\xa4chtlich", 0)),
    missing: of(schedule("once", 1), schedule("often", 1200), schedule("third", 2)),
  };
  assert.deepEqual(said({ flows: { batches: [], schedules } }), [
    "schedule nächtlich: late by 90 s: its tube is full",
    "schedule once: its last run was missed",
    "schedule often: its last 1,200 runs were missed",
    "schedule third: its last 2 runs were missed",
    "schedule p1: paused, so it puts no jobs",
    "schedule p2: paused, so it puts no jobs",
    "3 more schedules: are paused, so they put no jobs",
  ]);
});
