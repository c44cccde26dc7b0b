// Tests of the bench's arithmetic: histograms, medians, ratios and the reply reader.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { BenchCase } from "./case/bench-case.ts";
import { Latency } from "./load/latency.ts";
import { latencyOfBuckets } from "./load/native-latency.ts";
import { type ReplyView, readReply } from "./load/reply-reader.ts";
import { formatCount, formatMicros } from "./result/figures.ts";
import { goalTable } from "./result/goal-table.ts";
import { spreadsOf } from "./result/measurement.ts";
import { ratioTo } from "./result/outcome.ts";
import { conclusion, verdicts } from "./result/verdict.ts";

test("Latency: percentiles are within 0.1 % and never above the maximum", () => {
  const latency = new Latency();
  for (let micros = 1; micros <= 10_000; micros++) latency.record(micros, 1);
  assert.ok(Math.abs(latency.percentileMicros(50) - 5000) <= 5);
  assert.ok(Math.abs(latency.percentileMicros(99) - 9900) <= 10);
  assert.ok(latency.percentileMicros(99.999) <= latency.maxMicros);
});

test("Latency: encoding and adding keep every count", () => {
  const one = new Latency();
  one.record(12.3, 4);
  const other = new Latency(one.encode());
  other.record(5_000_000, 1);
  one.add(other);
  assert.equal(one.count, 9);
  assert.equal(one.percentileMicros(50), 12.3);
});

test("latencyOfBuckets: a bucket of the C generator counts at its middle", () => {
  const latency = latencyOfBuckets(
    [
      [200, 1], // 200 ns: a bucket of its own
      [1_048_576, 2], // 2^20 ns: 8192 ns wide
    ],
    1052,
    7,
  );
  assert.equal(latency.count, 3);
  assert.ok(Math.abs(latency.percentileMicros(90) - 1052) < 1);
});

test("spreadsOf: gives median, lowest and highest of the turns with the figure", () => {
  const turns = [3, 1, 2].map((value) => ({ figures: { p50: value } }));
  assert.deepEqual(spreadsOf([...turns, { figures: {} }]).p50, {
    median: 2,
    lowest: 1,
    highest: 3,
    turns: 3,
  });
  assert.equal(spreadsOf(turns.slice(0, 2)).p50!.median, 2);
});

test("ratioTo: above 1 is better, for figures of either direction", () => {
  const servers = [1000, 250].map((value, index) => ({
    server: "",
    description: "",
    isOurs: index === 0,
    spreads: spreadsOf([{ figures: { commandsPerSecond: value, bytesPerJob: value } }]),
  }));
  const benchCase = { key: "", title: "", group: "", measure: () => Promise.reject() };
  assert.equal(ratioTo({ benchCase: { ...benchCase, headline: "commandsPerSecond" }, servers }, 1), 4);
  assert.equal(ratioTo({ benchCase: { ...benchCase, headline: "bytesPerJob" }, servers }, 1), 0.25);
  assert.equal(ratioTo({ benchCase: { ...benchCase, headline: "p99" }, servers }, 1), undefined);
});

test("verdicts: a variant must reach its share of the default", () => {
  const servers = [1000, 950, 900, 890].map((value, index) => ({
    server: index === 0 ? "default" : `variant ${index}`,
    description: "",
    isOurs: index === 0,
    spreads: spreadsOf([{ figures: { commandsPerSecond: value } }]),
  }));
  const plain = { key: "", title: "threads", group: "", measure: () => Promise.reject() };
  const benchCase = { ...plain, headline: "commandsPerSecond" } as const;
  const variants = { flags: [[], [], []], shareMin: 0.9 };
  const missing = { server: "variant 4", description: "", isOurs: true, spreads: {} };
  const found = verdicts([{ benchCase: { ...benchCase, variants }, servers: [...servers, missing] }]);
  assert.deepEqual(
    found.map(({ isGood }) => isGood),
    [true, true, false, false],
  );
  assert.equal(found[0]!.text, "threads: variant 1: 0.950 x the default: good");
  assert.match(found[2]!.text, /0.890 x the default: TOO SLOW/);
  assert.match(found[3]!.text, /has no figure/);
  assert.deepEqual(verdicts([{ benchCase, servers }]), []);
});

test("goalTable: each case with a goal has a row of ratios, ranges, CPU and result", () => {
  const server = (name: string, rates: number[], cpu: number) => ({
    server: name,
    description: "",
    isOurs: name === "runnerbean",
    spreads: spreadsOf(rates.map((rate) => ({ figures: { commandsPerSecond: rate, cpuPerCommand: cpu } }))),
  });
  const servers = [
    server("runnerbean", [60_000, 72_000, 50_000], 11.04),
    server("beanstalkd", [40_000, 39_000, 41_000], 14.7),
    server("fork", [80_000], 8.8),
  ];
  const [ours, , fork] = servers;
  const refused = { ...server("beanstalkd", [], 0), skipped: "no" };
  const plain = {
    key: "",
    group: "",
    headline: "commandsPerSecond",
    measure: () => Promise.reject(),
  } as const;
  const goal = { needed: [1.25, 0.95], aim: [1.5, 1.05] };
  const table = goalTable([
    { benchCase: { ...plain, title: "with", goal }, servers },
    { benchCase: { ...plain, title: "without" }, servers },
    {
      benchCase: { ...plain, title: "one", goal: { needed: [2], aim: [3] } },
      servers: [ours!, refused, fork!],
    },
  ]);
  const rows = table.split("\n").map((line) =>
    line
      .split("|")
      .map((cell) => cell.trim())
      .slice(1, -1),
  );
  assert.deepEqual(rows[0]!.slice(1), [
    "runnerbean",
    "beanstalkd",
    "fork",
    ": beanstalkd",
    ": fork",
    "needed",
    "aim",
    "reached",
  ]);
  assert.deepEqual(rows[2], [
    "with",
    "60.0 k (50.0 k–72.0 k), 11.0 us",
    "40.0 k (39.0 k–41.0 k), 14.7 us",
    "80.0 k, 8.80 us",
    "1.50",
    "0.75",
    "1.25 / 0.95",
    "1.5 / 1.05",
    "aim / NO",
  ]);
  assert.deepEqual(rows[3]!.slice(2), ["skipped", "80.0 k, 8.80 us", "", "0.75", "2", "3", "?"]);
  assert.equal(rows.length, 4);
  assert.equal(goalTable([{ benchCase: { ...plain, title: "without" }, servers }]), "");
});

test("readReply: the replies don't depend on where the bytes are cut", () => {
  const bytes = Buffer.from(
    "INSERTED 12\r\nRESERVED 7 4\r\n\r\nx\n\r\nKICKED 3\r\nTIMED_OUT\r\nBURIED 5\r\nDELETED\r\n",
  );
  const expected = ["INSERTED 12", "RESERVED 7", "KICKED 3", "TIMED_OUT", "OTHER", "DELETED"];
  const view: ReplyView = { kind: "OTHER", number: 0, lineEnd: 0, bodyStart: 0, bodyBytes: 0 };
  for (let cut = 0; cut <= bytes.length; cut++) {
    const seen: string[] = [];
    let at = 0;
    for (const to of [cut, bytes.length]) {
      for (
        let next = readReply(bytes, at, to, view);
        next >= 0;
        next = at < to ? readReply(bytes, at, to, view) : -1
      ) {
        const hasNumber = view.kind === "INSERTED" || view.kind === "RESERVED" || view.kind === "KICKED";
        seen.push(hasNumber ? `${view.kind} ${view.number}` : view.kind);
        at = next;
      }
    }
    assert.deepEqual(seen, expected, `cut at ${cut}`);
  }
});

test("formatMicros, formatCount: three digits and a unit", () => {
  assert.deepEqual([12.4, 1234, 2.5e6].map(formatMicros), ["12 us", "1.23 ms", "2.50 s"]);
  assert.deepEqual([12, 1234, 123_456, 2.5e6].map(formatCount), ["12", "1.23 k", "123.5 k", "2.50 M"]);
});

test("conclusion: names the ranges, and the rows in which the first server is slower", () => {
  const row = (title: string, rates: readonly number[], cpus: readonly number[]) => ({
    benchCase: { title, headline: "commandsPerSecond" } as BenchCase,
    servers: rates.map((commandsPerSecond, index) => ({
      server: ["ours", "theirs"][index]!,
      description: "",
      isOurs: index === 0,
      spreads: spreadsOf([{ figures: { commandsPerSecond, cpuPerCommand: cpus[index]! } }]),
    })),
  });
  const [slow, fast] = [row("slow", [86, 100], [10, 8]), row("fast", [440, 100], [2, 8])];
  assert.equal(
    conclusion([slow, fast]),
    "On this machine and in these 2 rows, ours has 0.86 to 4.40 times the speed of theirs and takes 0.25 to 1.25 times its CPU per command; it is slower in slow.",
  );
  assert.match(
    conclusion([fast]),
    /in this row, ours has 4\.40 times .* takes 0\.25 times .* slower in none\.$/,
  );
  assert.equal(conclusion([{ ...fast, servers: fast.servers.slice(0, 1) }]), "");
});
