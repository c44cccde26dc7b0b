// Tests of cron expressions: what is wrong with one, and daylight saving.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  CronTimes,
  cronProblem,
  ZoneClock,
  zoneProblem,
} from "../../../../src/shard/schedules/cron-times.ts";

/** A search takes a few ms at most, and much less on average. */
const SEARCH_MS_MAX = 15;
const NOW_MS = Date.parse("2026-03-01T00:00Z");

/** The first ticks of an expression in Berlin after a time. */
function ticks(cron: string, after: string, count: number): string[] {
  const times = new CronTimes();
  const found: string[] = [];
  let atMs = Date.parse(after);
  while (found.length < count) {
    atMs = times.next({ cron, zone: "Europe/Berlin", everyMs: 0 }, atMs);
    found.push(new Date(atMs).toISOString().slice(0, 16));
  }
  return found;
}

describe("a cron expression", () => {
  it("is read in its zone, through both changes of the clocks", () => {
    const spring = ["2026-03-28T01:30", "2026-03-29T01:00", "2026-03-30T00:30"];
    assert.deepEqual(ticks("30 2 * * *", "2026-03-27T12:00Z", 3), spring);
    const autumn = ["2026-10-24T00:30", "2026-10-25T00:30", "2026-10-26T01:30"];
    assert.deepEqual(ticks("30 2 * * *", "2026-10-23T12:00Z", 3), autumn);
    const hours = ["2026-10-25T00:00", "2026-10-25T01:00", "2026-10-25T02:00"];
    assert.deepEqual(ticks("0 * * * *", "2026-10-24T23:30Z", 3), hours);
  });

  it("has the times of a gap even if the search begins in the last second before it", () => {
    for (const ms of [-1000, -999, -500, -1])
      for (const [cron, zone, change] of [
        ["30 2 * * *", "Europe/Berlin", "2027-03-28T01:00Z"],
        ["59 59 1,2 * * *", "Europe/Berlin", "2027-03-28T01:00Z"],
        ["30 2 * * *", "America/New_York", "2027-03-14T07:00Z"],
        ["15 2 * * *", "Australia/Lord_Howe", "2026-10-03T15:30Z"],
        ["30 23 * * *", "America/Nuuk", "2026-03-29T01:00Z"],
      ] as const) {
        const changeMs = Date.parse(change);
        const nextMs = new CronTimes().next({ cron, zone, everyMs: 0 }, changeMs + ms);
        assert.equal(nextMs, changeMs, `${cron} ${zone} ${ms}`);
      }
  });

  it("with both day fields matches either of them, and with a + both", () => {
    const days = (cron: string): string[] =>
      ticks(cron, "2026-11-01T00:00Z", 4).map((text) => text.slice(5, 10));
    assert.deepEqual(days("0 12 10 * FRI"), ["11-06", "11-10", "11-13", "11-20"]);
    assert.deepEqual(days("0 12 10 * *"), ["11-10", "12-10", "01-10", "02-10"]);
    assert.deepEqual(days("0 12 * * FRI"), ["11-06", "11-13", "11-20", "11-27"]);
    assert.deepEqual(days("0 12 13 * +FRI"), ["11-13", "08-13", "10-13", "04-13"]);
  });

  it("that is wrong is told with its field", () => {
    for (const [cron, problem] of [
      ["0 25 * * *", /field 2 \(hour\): "25" is not \*, 0 to 23/],
      ["0 0 32 * *", /field 3 \(day\): "32"/],
      ["0 0 * FOO *", /field 4 \(month\): "FOO"/],
      ["61 0 0 * * *", /field 1 \(second\): "61"/],
      ["* * *", /has not five, six or seven fields/],
      ["@reboot", /is none of @hourly/],
      ["? * * * *", /field 1: "\?" has a "\?"/],
      ["0 0 30 2 *", /no time in the next 40 years/],
    ] as const)
      assert.match(cronProblem(cron, "UTC", NOW_MS) ?? "", problem);
    for (const cron of ["*/5 * * * *", "@daily", "0 0 L * *", "30 2 * * MON-FRI", "0 0 9 1 1 * 2027"])
      assert.equal(cronProblem(cron, "UTC", NOW_MS), undefined, cron);
  });

  it("without a time is refused soon", () => {
    // The first format of a process loads the data of all zones.
    zoneProblem("Europe/Berlin");
    let longestMs = 0;
    for (const cron of [
      "* * 2-2/1 * 3 SUN#L",
      "* * * 1-27 * +MON#5,TUE#5,WED#5,THU#5,FRI#5,SAT#5,SUN#5 2026-9999",
      "0 0 0 31 2,4,6,9,11 * 1-9999",
      "0 0 0 1 1 * 9999",
      "0 0 30 2 *",
      "0 0 31 2,4,6,9,11 *",
      `* * 2-2/1 31 3 +${"SUN#L,".repeat(8)}SUN#L`,
      `0 0 0 29 2 +1,${"1,".repeat(30)}1 2029,2031`,
      `0 0 0 30 2 +1 ${"1-9999,".repeat(14)}1-9999`,
    ]) {
      let bestMs = Number.POSITIVE_INFINITY;
      for (let attempt = 0; attempt < 5; attempt++) {
        const before = process.threadCpuUsage();
        const problem = cronProblem(cron, "Europe/Berlin", NOW_MS) ?? "";
        const { user, system } = process.threadCpuUsage(before);
        bestMs = Math.min(bestMs, (user + system) / 1000);
        assert.match(problem, /no time in the next 40 years/);
      }
      longestMs = Math.max(longestMs, bestMs);
      const timing = { cron, zone: "Europe/Berlin", everyMs: 0 };
      assert.equal(new CronTimes().next(timing, NOW_MS), Number.POSITIVE_INFINITY);
    }
    assert.ok(longestMs < SEARCH_MS_MAX, `a search takes ${longestMs} ms`);
  });

  it("is never searched behind all time", () => {
    const timing = { cron: "0 0 * * *", zone: "Europe/Berlin", everyMs: 0 };
    for (const afterMs of [Number.POSITIVE_INFINITY, Number.NaN, Number.MAX_VALUE, 8.64e15])
      assert.equal(new CronTimes().next(timing, afterMs), Number.POSITIVE_INFINITY);
  });

  it("has its times behind all that it must skip", () => {
    const first = (cron: string, zone: string, after: string): string =>
      new Date(new CronTimes().next({ cron, zone, everyMs: 0 }, Date.parse(after))).toISOString();
    assert.equal(
      first("* * 1-2 * * *", "Antarctica/Troll", "2026-03-29T00:59:59Z"),
      "2026-03-29T23:00:00.000Z",
    );
    assert.equal(first("0 0 29 2 +MON", "UTC", "2072-03-01T00:00Z"), "2112-02-29T00:00:00.000Z");
    assert.equal(
      first("0 0 0 1 1 * 2030,2066", "Asia/Tokyo", "2029-12-31T15:00Z"),
      "2065-12-31T15:00:00.000Z",
    );
    assert.equal(first("0 0 * * *", "Pacific/Kiritimati", "2026-12-31T09:59Z"), "2026-12-31T10:00:00.000Z");
    assert.equal(first("0 0 31 12 *", "America/Adak", "2027-01-01T09:00Z"), "2027-12-31T10:00:00.000Z");
    // Its clock goes from 23:00 to midnight, and Samoa's had no 30 December.
    assert.equal(first("30 23 * * *", "America/Nuuk", "2026-03-28T02:00Z"), "2026-03-29T01:00:00.000Z");
    assert.equal(first("45 23 * * *", "America/Nuuk", "2026-03-29T01:00Z"), "2026-03-30T00:45:00.000Z");
    assert.equal(first("30 12 30 * *", "Pacific/Apia", "2011-12-01T00:00Z"), "2012-01-29T22:30:00.000Z");
    assert.equal(first("59 23 31 12 *", "America/Adak", "2027-01-01T09:00Z"), "2027-01-01T09:59:00.000Z");
  });

  it("in an unknown zone is refused, and never has a time if it is in the log", () => {
    assert.match(zoneProblem("Mars/Base") ?? "", /"Mars\/Base" is no time zone/);
    assert.equal(zoneProblem("America/New_York"), undefined);
    for (const offset of ["+01:00", "-0330", "+02"])
      assert.match(zoneProblem(offset) ?? "", /is an offset; write a time zone as in Europe\/Berlin/);
    for (const short of ["IST", "PST", "bst", "AST", "SystemV/PST8"])
      assert.ok(zoneProblem(short)?.includes(`"${short}" is no IANA time zone`));
    for (const name of ["Etc/GMT-1", "UTC", "CET", "EST5EDT", "GB"])
      assert.equal(zoneProblem(name), undefined);
    const timing = { cron: "* * * * *", zone: "Mars/Base", everyMs: 0 };
    assert.equal(new CronTimes().next(timing, NOW_MS), Number.POSITIVE_INFINITY);
  });
});

it("finds a change of the clocks between times that are no whole seconds", () => {
  const clock = ZoneClock.of("Europe/Berlin");
  const changeMs = Date.parse("2026-03-29T01:00Z");
  for (const [before, after] of [
    [100, 1100],
    [1, 1],
    [999, 1],
    [500, 1600],
  ] as const)
    assert.equal(clock.changeMs(changeMs - before, changeMs + after), changeMs);
  assert.equal(clock.changeMs(changeMs - 7_200_100, changeMs + 1100), changeMs);
});
