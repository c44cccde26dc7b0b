// `npm test`: runs the *.test.ts of test/ and bench/ with Node's test runner. It prints a line for
// each file, then what was skipped, and last the failures in full.
//
// It plays the same each time: all but the files in WHOLE_ONLY (support/run/files.ts) and some
// variants (support/whole.ts). TESTS=whole plays everything. Each file has a process, but most of
// test/unit, where each room has one.
//
// node test/run.ts [part of a file name …] runs only the files whose path contains one of the
// parts, with all variants, and prints what they say. CPU_TIMES=/tmp/times adds a line for each
// file to /tmp/times: its CPU seconds, its name.

import { spawnSync } from "node:child_process";
import { globSync } from "node:fs";
import { availableParallelism, release } from "node:os";
import { relative } from "node:path";
import { fileURLToPath } from "node:url";
import { defaultTransport, usableCores } from "../src/server/options/thread-settings.ts";
import { choosePlacement } from "../src/server/server-plan.ts";
import { testCommand } from "./support/campaign-command.ts";
import { busyness } from "./support/machine/busyness.ts";
import { IdleCores } from "./support/machine/idle-cores.ts";
import { remediesOf } from "./support/machine/need.ts";
import { endHungFiles } from "./support/run/end-hung-files.ts";
import {
  computes,
  isOneOf,
  isUnit,
  ONCE_MORE,
  processesFor,
  rankOf,
  reasonToWait,
  WAITING,
} from "./support/run/files.ts";
import { type Piece, Player, ROOM_ENTRY } from "./support/run/player.ts";
import { COMPILE_CACHE } from "./support/server/compile-cache.ts";
import { bundleServer } from "./support/server/server-bundle.ts";
import { WHOLE, WHY_WHOLE_ONLY } from "./support/whole.ts";

const CORES = Math.max(2, availableParallelism());
/** Files at a time: more than cores, for there are always some that wait. */
const AT_ONCE = 2 + CORES;
/** Files beside these, one more whenever so large a share of the cores was idle for so long. */
const MORE_WHILE_IDLE = CORES;
const IDLE_SHARE = 0.2;
const IDLE_MS = 1000;

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
const { args: parts } = testCommand(
  "test",
  `Runs the tests whose files have one of the parts in their path. Without parts, it runs all that fit into a few minutes; \`npm run test:whole\` runs all. See test/README.md.`,
)
  .argument("[parts...]", "such as unit/engine, dashboard or transcripts")
  .parse();
const wanted = globSync(["test/**/*.test.ts", "bench/**/*.test.ts"], { cwd: root }).filter(
  (file) => parts.length === 0 || parts.some((part) => file.includes(part)),
);
const isFast = !WHOLE && parts.length === 0;
const files = wanted
  .filter((file) => !isFast || reasonToWait(file) === undefined)
  .sort()
  .sort((a, b) => rankOf(a) - rankOf(b));

/** Environment of the files and their children. */
const ENV: NodeJS.ProcessEnv = {
  NODE_COMPILE_CACHE: COMPILE_CACHE,
  RUNNERBEAN_CHECKED: "1",
  ...process.env,
};
if (isFast) ENV["TESTS"] = "fast";
if (!files.every(computes)) ENV["SERVER_BUNDLE"] ??= await bundleServer();

/** With CPU_TIMES=FILE, the CPU seconds of each file are added to that one. */
const execArgv =
  ENV["CPU_TIMES"] === undefined ? [] : ["--import", `${root}test/support/machine/cpu-of-file.ts`];

/** Files shown at the end with the time that they took. */
const LONGEST_SHOWN = 8;

/** Reasons to skip, each told once with so many names. */
const NAMES_SHOWN = 3;

const player = new Player({ root, testMs: TEST_MS, execArgv, showsAll: parts.length > 0 });
const { skipped, failures } = player.total;
for (const file of wanted)
  if (!files.includes(file))
    skipped.push({ name: relative("test", file), why: `${WHY_WHOLE_ONLY} (${reasonToWait(file)})` });

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

/** The files of one process. */
const pieceOf = (files: readonly string[], env: NodeJS.ProcessEnv = ENV): Piece => ({
  files,
  env,
  isRoom: files.length > 1,
});

/** What a file is played with: as it is, and once more if it is one of those. */
const environmentsFor = ([file = ""]: readonly string[]): readonly NodeJS.ProcessEnv[] =>
  other !== undefined && isOneOf(ONCE_MORE, file) ? [ENV, other] : [ENV];

/**
 * Runs the files that wait, row by row, and beside them those that compute, as long as there is
 * something that waits: no core is idle then. What has not begun by then is left to run with the
 * others.
 */
async function runWaiting(): Promise<{
  readonly left: readonly Piece[];
  readonly computing: Promise<unknown>;
}> {
  const rows = WAITING.map((row) => files.filter((file) => isOneOf(row, file)));
  let isWaiting = rows.flat().length > 0;
  const pieces = processesFor(files.filter(computes)).map((group) => pieceOf(group));
  const lane = async (): Promise<void> => {
    while (isWaiting && pieces.length > 0) await player.play(pieces.shift()!);
  };
  const lanes = Array.from({ length: CORES - 1 }, lane);
  for (const row of rows) await player.play({ ...pieceOf(row), isRoom: false }, row.length);
  isWaiting = false;
  return { left: pieces, computing: Promise.all(lanes) };
}

/** All others, as many at a time as keep the cores busy. */
async function runOthers(left: readonly Piece[]): Promise<void> {
  const others = files.filter((file) => !computes(file) && !isOneOf(WAITING.flat(), file));
  const pieces = processesFor(others).flatMap((group) =>
    environmentsFor(group).map((env) => pieceOf(group, env)),
  );
  const rank = ({ files: [file = ""] }: Piece): number => rankOf(file);
  pieces.push(...left);
  pieces.sort((a, b) => rank(a) - rank(b));
  const lane = async (): Promise<void> => {
    for (let piece = pieces.shift(); piece !== undefined; piece = pieces.shift()) await player.play(piece);
  };
  const lanes = Array.from({ length: AT_ONCE }, lane);
  const more = new Set<Promise<void>>();
  const cores = new IdleCores();
  const looking = setInterval(() => {
    if (cores.share() < IDLE_SHARE || more.size === MORE_WHILE_IDLE || pieces.length === 0) return;
    const one = player.play(pieces.shift()!).finally(() => more.delete(one));
    more.add(one);
  }, IDLE_MS);
  await Promise.all(lanes);
  clearInterval(looking);
  await Promise.all(more);
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
  [...files, ROOM_ENTRY].map((file) => `${root}${file}`),
  {
    limitOf: (file) => ({
      wallMs: FILE_MS,
      ownMs: isUnit(relative(root, file)) ? UNIT_MS : FILE_MS,
    }),
    onHung: (file, afterMs) =>
      player.noteEnd(file, `${file}: it still ran after ${secondsOf(afterMs)} s, and was ended`),
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
  `\n${files.length} files in ${seconds} s: ${player.total.passed} passed, ${failures.length} failed, ${skipped.length} skipped`,
);
const { took, incomplete } = player;
took.sort((a, b) => b.seconds - a.seconds);
const longest = took.slice(0, LONGEST_SHOWN).map(({ file, seconds }) => `${file} ${Math.round(seconds)} s`);
console.log(`the longest: ${longest.join(", ")}`);
tellSkipped();
if (files.length === 0) console.log("No test file found");
// The last lines, where a reader looks first.
for (const what of incomplete) console.log(`INCOMPLETE ${what}`);
for (const what of failures) console.log(`FAILED ${what}`);
const hasPassed = failures.length === 0 && incomplete.length === 0 && files.length > 0;
process.exitCode = hasPassed ? 0 : 1;
