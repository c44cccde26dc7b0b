// `npm test`: runs every *.test.ts of test/ and bench/ with Node's test runner, and reports skipped
// tests.
//
// TESTS=whole plays more of the same (support/whole.ts), and some files that take long. Without it
// some tests take turns; TURN=n plays those of an earlier run again.
//
// node test/run.ts [part of a file name …] runs only the files whose path contains one of the
// parts. CPU_TIMES=/tmp/times adds a line for each file to /tmp/times: its CPU seconds, its name.

import { spawnSync } from "node:child_process";
import { globSync } from "node:fs";
import { availableParallelism, release } from "node:os";
import { dirname, relative } from "node:path";
import { Writable } from "node:stream";
import { finished } from "node:stream/promises";
import { type EventData, run } from "node:test";
import { spec } from "node:test/reporters";
import { fileURLToPath } from "node:url";
import { stripVTControlCharacters } from "node:util";
import { defaultTransport } from "../src/server/options/machine-defaults.ts";
import { choosePlacement } from "../src/server/options/placement.ts";
import { usableCores } from "../src/server/options/usable-cores.ts";
import { endHungFiles } from "./support/end-hung-files.ts";
import { busyness } from "./support/machine/busyness.ts";
import { remediesOf } from "./support/machine/need.ts";
import { drawnSeed } from "./support/seeded-random.ts";
import { COMPILE_CACHE } from "./support/server/compile-cache.ts";
import { bundleServer } from "./support/server/server-bundle.ts";
import { WHOLE, WHY_WHOLE_ONLY } from "./support/whole.ts";

/**
 * They watch the clock, but mostly wait, and play again what the machine was too slow for: those of
 * a row all at a time, and beside them nothing but what computes, which leaves them a core.
 */
const WAITING: readonly (readonly string[])[] = [
  ["transcripts-beanstalkd", "differential", "replica/group", "replica/failures", "replica/partitions"],
  // It starts as many servers as there is memory for.
  ["transcripts-server-timed"],
];

/** They compute, in one thread each, on virtual time or none; all tests of one module do, too. */
const COMPUTING = [
  "simulation/simulation",
  "pinned-memory",
  "transcripts-in-process",
  "binlog/simulation",
  "replica/simulation",
  "simulation/http-simulation",
  "simulation/guarded-run",
  "simulation/durable-policies",
  "binlog/damage",
  "binlog/holes",
  "binlog/making-room",
  "binlog/interrupted-rewrite",
];

/** They take longest, and so begin first; those that are run once more with them. */
const LONGEST = [
  "transcripts-server",
  "simulation/simulation",
  "cli",
  "dashboard",
  "http-hostile",
  "dashboard-actions",
  "dashboard-operations",
  "fairness",
  "pinned-memory",
  "stress/stress",
  "cli-strangers",
  "engine-random",
  "connection-end",
  "fuzz/fuzz",
  "documented",
  "large-bodies",
  "hostile",
  "kill",
  "process-start",
  "process-output",
  "generators",
  "stream-writes",
  "soak/canary",
  "dashboard-roles",
  "dashboard-group",
  "client-package",
  "replica/simulation",
  "transcripts-in-process",
  "binlog/damage",
  "end-at-any-turn",
  "given-back-at-any-step",
  "key-table",
];

/**
 * They speak with a running server, and in whole runs are run once more with the transport that is
 * not the default here.
 */
const ONCE_MORE = ["transcripts-server", "hostile", "clients"];

/** Whole runs have them, and runs that name them. */
const WHOLE_ONLY = [
  "proof/group/group",
  "packaging/packages",
  "packaging/executable",
  "bench/generators",
  "profile/profile",
  "soak/canary",
];

/** Divisible by how many take turns anywhere, so that each is as likely as the others. */
const TURNS = 60;

const CORES = Math.max(2, availableParallelism());
/** Files at a time: more than cores, for there are always some that wait. */
const AT_ONCE = 2 + CORES;

/** Longer than any test takes. */
const { TEST_SECONDS = `${400 * busyness()}` } = process.env;
const TEST_MS = Number(TEST_SECONDS) * 1000;
/** Longer than any file takes, also where others use the machine; one that hangs is ended. */
const FILE_MS = 2 * TEST_MS;
/** Longer than any file of test/unit takes, without the time for which it has no core. */
const { UNIT_SECONDS = "60" } = process.env;
const UNIT_MS = Number(UNIT_SECONDS) * 1000;
/** Interval at which long-running files are named, so five minutes never pass in silence. */
const TELL_MS = 60_000;

const root = fileURLToPath(new URL("..", import.meta.url));
const parts = process.argv.slice(2);
const isOneOf = (names: readonly string[], file: string): boolean =>
  names.some((name) => `/${file}`.endsWith(`/${name}.test.ts`));
const rankOf = (file: string): number => {
  const rank = LONGEST.findIndex((name) => isOneOf([name], file));
  return rank < 0 ? LONGEST.length : rank;
};
const isLeftOut = (file: string): boolean => !WHOLE && parts.length === 0 && isOneOf(WHOLE_ONLY, file);
const wanted = globSync(["test/**/*.test.ts", "bench/**/*.test.ts"], { cwd: root }).filter(
  (file) => parts.length === 0 || parts.some((part) => file.includes(part)),
);
const files = wanted
  .filter((file) => !isLeftOut(file))
  .sort()
  .sort((a, b) => rankOf(a) - rankOf(b));
const computes = (file: string): boolean => file.startsWith("test/unit/") || isOneOf(COMPUTING, file);

/** Number of this run, which says which tests have their turn; undefined where all are played. */
const { TURN = WHOLE || parts.length > 0 ? undefined : `${drawnSeed() % TURNS}` } = process.env;

/** Environment of the files and their children. */
const ENV: NodeJS.ProcessEnv = {
  NODE_COMPILE_CACHE: COMPILE_CACHE,
  RUNNERBEAN_CHECKED: "1",
  ...process.env,
  ...(TURN === undefined ? {} : { TURN }),
};
if (!files.every(computes)) ENV["SERVER_BUNDLE"] ??= await bundleServer();

/** With CPU_TIMES=FILE, the CPU seconds of each file are added to that one. */
const EXEC_ARGV =
  ENV["CPU_TIMES"] === undefined ? [] : ["--import", `${root}test/support/machine/cpu-of-file.ts`];

interface Skip {
  readonly name: string;
  readonly why: string;
}

/** Lines of a failed test's error that are told once more at the end. */
const ERROR_LINES = 20;

/** Files shown at the end with the time that they took. */
const LONGEST_SHOWN = 8;

const skipped: Skip[] = wanted
  .filter(isLeftOut)
  .map((file) => ({ name: relative("test", file), why: WHY_WHOLE_ONLY }));
/** Reasons to skip, each told once with so many names. */
const NAMES_SHOWN = 3;
const took: { readonly file: string; readonly seconds: number }[] = [];
/**
 * Files whose results are not all there: as bad as failures, which may be among what is missing.
 */
const incomplete: string[] = [];
/** Repeated at the end, where they are easy to find. */
const failures: string[] = [];
let passed = 0;

/** Returns the place of a failed test, its unusual settings, and the first lines of its error. */
function failureOf(
  { name, file, line, details: { error } }: EventData.TestFail,
  env: NodeJS.ProcessEnv,
): string {
  const { OUR_FLAGS = "" } = env;
  const where = `${relative(root, file ?? root)}:${line ?? 0}`;
  const cause =
    error.cause instanceof Error ? (error.cause.stack ?? error.cause.message) : `${error.cause ?? error}`;
  const lines = stripVTControlCharacters(cause).split("\n").slice(0, ERROR_LINES);
  return [`${where} ${name} ${OUR_FLAGS}`.trimEnd(), ...lines].join("\n    ");
}

/** Their output comes in one piece at the end, so it doesn't mix with that of others. */
async function runFiles(
  chosen: readonly string[],
  concurrency: number,
  env: NodeJS.ProcessEnv = ENV,
): Promise<void> {
  if (chosen.length === 0) return;
  const printed: Buffer[] = [];
  const out = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      printed.push(chunk);
      done();
    },
  });
  const paths = chosen.map((file) => `${root}${file}`);
  const stream = run({
    files: paths,
    concurrency,
    cwd: root,
    env,
    execArgv: EXEC_ARGV,
    // For each test. Not --test-force-exit: it ends a file's process before all of its results are
    // told.
    timeout: TEST_MS,
  });
  /** Results heard of, by file: compared with what the file itself says at its end. */
  const heard = new Map<string, number>();
  /** Files with a suite that was skipped: there may be nothing else in them. */
  const withSkippedSuite = new Set<string>();
  const unfinished = new Set(paths);
  const hear = (file: string | undefined): void => {
    if (file !== undefined) heard.set(file, (heard.get(file) ?? 0) + 1);
  };
  stream.on("test:pass", (test) => {
    if (test.details.type !== "suite") hear(test.file);
    if (test.details.type === "suite" && test.skip !== undefined) withSkippedSuite.add(test.file ?? "");
    if (test.skip !== undefined) skipped.push({ name: test.name, why: `${test.skip}` });
    else if (test.details.type !== "suite") passed++;
  });
  stream.on("test:fail", (test) => {
    if (test.details.type !== "suite") hear(test.file);
    // Its own tests have been reported already.
    const { error } = test.details;
    if (!("failureType" in error) || error.failureType !== "subtestsFailed")
      failures.push(failureOf(test, env));
  });
  stream.on("test:summary", ({ file, counts, duration_ms }) => {
    if (file === undefined) return;
    took.push({ file: relative(root, file), seconds: duration_ms / 1000 });
    unfinished.delete(file);
    const count = heard.get(file) ?? 0;
    if (count === counts.tests && (count > 0 || withSkippedSuite.has(file))) return;
    incomplete.push(`${file}: ${counts.tests} tests were run, ${count} results were heard`);
  });
  const reporter = new spec();
  const told = stream.compose(reporter);
  told.pipe(out, { end: false });
  await finished(told, { writable: false });
  const { OUR_FLAGS } = env;
  if (OUR_FLAGS !== process.env["OUR_FLAGS"]) console.log(`\nOnce more with ${OUR_FLAGS}:`);
  process.stdout.write(withoutCounts(Buffer.concat(printed).toString()));
  for (const file of unfinished) incomplete.push(`${file}: it did not come to its end`);
}

/** Why io_uring can't be had here, or undefined if it can. */
function ioUringRefusal(): string | undefined {
  const program = `import("${root}src/uring/uring.ts").then(({ Uring }) => new Uring())`;
  const probe = spawnSync(process.execPath, ["--disable-warning=ExperimentalWarning", "--eval", program], {
    encoding: "utf8",
  });
  if (probe.status === 0) return undefined;
  return /KernelError: (.*)/.exec(probe.stderr)?.[1] ?? probe.stderr;
}

/**
 * Returns the environment of files that are run once more, or undefined where that is impossible.
 */
function onceMore(): NodeJS.ProcessEnv | undefined {
  const again = files.filter((file) => isOneOf(ONCE_MORE, file));
  if (again.length === 0) return undefined;
  if (!WHOLE) {
    skipped.push({ name: `${again.length} files with the other transport`, why: WHY_WHOLE_ONLY });
    return undefined;
  }
  const why = ioUringRefusal();
  if (why !== undefined) {
    skipped.push({ name: `${again.length} files with --transport io_uring`, why });
    return undefined;
  }
  const { placement } = choosePlacement({ ...SEVERAL, placement: "auto" }, usableCores());
  const transport = defaultTransport(release()) === "auto" ? "libuv" : "io_uring";
  const flags = `--transport ${transport} --placement ${placement === "together" ? "apart" : "together"}`;
  return { ...ENV, OUR_FLAGS: flags, TOPOLOGY: `${SEVERAL.shards}x${SEVERAL.acceptors}` };
}

/**
 * Topology of files that are run once more: several of each, and no more threads than that takes.
 */
const SEVERAL = { shards: 2, acceptors: 2 };

/** Each run tells its counts; all together are told at the end. */
const withoutCounts = (text: string): string =>
  text.replace(/^ℹ (?:tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) .*\n/gm, "");

/** Groups the files that compute: each long file and each room by itself. */
function computingPieces(): string[][] {
  const pieces = new Map<string, string[]>();
  for (const file of files.filter(computes)) {
    const key = isOneOf(COMPUTING, file) ? file : dirname(file);
    pieces.set(key, [...(pieces.get(key) ?? []), file]);
  }
  return [...pieces.values()];
}

/** A file, and what it starts with. */
interface Piece {
  readonly file: string;
  readonly env: NodeJS.ProcessEnv;
}

/** The chosen files, each followed by itself once more if it is one of those. */
const withOnceMore = (chosen: readonly string[]): Piece[] =>
  chosen.flatMap((file) => [
    { file, env: ENV },
    ...(other !== undefined && isOneOf(ONCE_MORE, file) ? [{ file, env: other }] : []),
  ]);

/**
 * Runs the files that wait, row by row, and beside them those that compute, as long as there is
 * something that waits: no core is idle then. What has not begun by then is left to run with the
 * others.
 */
async function runWaiting(): Promise<{
  readonly left: readonly string[];
  readonly computing: Promise<unknown>;
}> {
  const rows = WAITING.map((row) => files.filter((file) => isOneOf(row, file)));
  let isWaiting = rows.flat().length > 0;
  const pieces = computingPieces();
  const lane = async (): Promise<void> => {
    while (isWaiting && pieces.length > 0) await runFiles(pieces.shift()!, 1);
  };
  const lanes = Array.from({ length: CORES - 1 }, lane);
  for (const row of rows) await runFiles(row, row.length);
  isWaiting = false;
  return { left: pieces.flat(), computing: Promise.all(lanes) };
}

/** All others, as many at a time as keep the cores busy. */
async function runOthers(left: readonly string[]): Promise<void> {
  const pieces = withOnceMore(
    files.filter((file) => (computes(file) ? left.includes(file) : !isOneOf(WAITING.flat(), file))),
  );
  const lane = async (): Promise<void> => {
    for (let piece = pieces.shift(); piece !== undefined; piece = pieces.shift())
      await runFiles([piece.file], 1, piece.env);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
}

/**
 * Each reason with the names that it is told for, and at the end the commands after which nothing
 * of this is missing.
 */
function tellSkipped(): void {
  const byReason = Map.groupBy(skipped, ({ why }) => why);
  for (const [why, all] of byReason) {
    const names = all.slice(0, NAMES_SHOWN).map(({ name }) => name);
    const more = all.length > names.length ? ` and ${all.length - names.length} more` : "";
    console.log(`SKIPPED ${names.join(", ")}${more}: ${why}`);
  }
  const remedies = remediesOf([...byReason.keys()]);
  if (remedies.length > 0) console.log(`To skip less: ${remedies.join("; ")}`);
}

const startedAt = performance.now();
const secondsOf = (ms: number): number => Math.round(ms / 1000);
const stopLooking = endHungFiles(
  files.map((file) => `${root}${file}`),
  {
    limitOf: (file) => ({
      wallMs: FILE_MS,
      ownMs: file.startsWith(`${root}test/unit/`) ? UNIT_MS : FILE_MS,
    }),
    onHung: (file, afterMs) => {
      const what = `${file}: it still ran after ${secondsOf(afterMs)} s, and was ended`;
      console.error(what);
      incomplete.push(what);
    },
    onStillRunning: (file, afterMs) => console.error(`${file}: runs for ${secondsOf(afterMs)} s`),
    tellMs: TELL_MS,
  },
);
const other = onceMore();
const { left, computing } = await runWaiting();
await runOthers(left);
await computing;
stopLooking();

const seconds = Math.round((performance.now() - startedAt) / 1000);
console.log(
  `\n${files.length} files in ${seconds} s: ${passed} passed, ${failures.length} failed, ${skipped.length} skipped`,
);
took.sort((a, b) => b.seconds - a.seconds);
const longest = took.slice(0, LONGEST_SHOWN).map(({ file, seconds }) => `${file} ${Math.round(seconds)} s`);
console.log(`the longest: ${longest.join(", ")}`);
if (TURN !== undefined)
  console.log(`the same again: TURN=${TURN} npm test; all, and more seeds and rounds: npm run test:whole`);
tellSkipped();
for (const what of incomplete) console.error(`INCOMPLETE ${what}`);
for (const what of failures) console.log(`FAILED ${what}`);
if (files.length === 0) console.error("No test file found");
process.exitCode = failures.length === 0 && incomplete.length === 0 && files.length > 0 ? 0 : 1;
