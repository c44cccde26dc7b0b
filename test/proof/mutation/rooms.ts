// The rooms that are mutated, and the tests that must notice: those that run in one process.

import { execFileSync } from "node:child_process";
import { globSync } from "node:fs";
import { ROOT } from "./covered.ts";

const TRANSCRIPTS = "test/proof/mutation/transcripts.ts";
const SEEDS = "test/proof/mutation/seeds.ts";

/** One after the other: a mutant meets the next stage only if it survives this one. */
export const STAGES = ["room", "transcripts", "neighbours", "seeds"] as const;
export type Stage = (typeof STAGES)[number];

/** Tests of a room besides its unit tests. */
const OWN: Readonly<Record<string, readonly string[]>> = {
  binlog: ["test/binlog/**/*.test.ts"],
  message: ["test/binlog/record.test.ts"],
  // Of the client's tests those in which a script answers, not a server.
  client: ["test/client/{queue,link,client-start}.test.ts"],
};

/** Those of them that take seconds: a mutant meets them last. */
const DEAR = ["log-verdict", "holes", "segment-writer", "simulation", "tools"].map(
  (name) => `test/binlog/${name}.test.ts`,
);

/** The simulator of groups, whose nodes follow and lead with logs of their own. */
const GROUPS = "test/replica/simulation.test.ts";

/** The unit tests of the rooms that use a room, and its dear ones. */
const NEIGHBOURS: Readonly<Record<string, readonly string[]>> = {
  engine: ["test/unit/shard/**/*.test.ts"],
  protocol: ["test/unit/acceptor/**/*.test.ts"],
  ring: ["test/unit/loop/**/*.test.ts", "test/unit/message/**/*.test.ts"],
  binlog: [...DEAR, GROUPS],
  shard: ["test/unit/acceptor/**/*.test.ts"],
  acceptor: ["test/unit/http/link/**/*.test.ts"],
  message: ["acceptor", "replica", "shard"].map((room) => `test/unit/${room}/**/*.test.ts`),
  config: ["test/unit/server/options/**/*.test.ts"],
  server: ["test/unit/config/**/*.test.ts"],
  client: ["test/unit/cli/**/*.test.ts"],
  replica: ["test/replica/shared-log.test.ts", GROUPS],
  access: ["test/unit/config/**/*.test.ts", "test/unit/acceptor/admission/auth-filter.test.ts"],
  // Most of its tests start a server, which a mutant doesn't reach.
  http: ["test/simulation/http-simulation.test.ts"],
};

export const ROOMS: readonly string[] = Object.keys(NEIGHBOURS);

/** The test files of a stage, all of which `npm test` plays, or more of the same. */
export function testsOf(room: string, stage: Stage): string[] {
  switch (stage) {
    case "room":
      return filesLike([`test/unit/${room}/**/*.test.ts`, ...(OWN[room] ?? [])]).filter(
        (path) => !DEAR.includes(path),
      );
    case "transcripts":
      return [TRANSCRIPTS];
    case "neighbours":
      return filesLike(NEIGHBOURS[room]!);
    case "seeds":
      return [SEEDS];
  }
}

const filesLike = (patterns: readonly string[]): string[] =>
  [...new Set(patterns.flatMap((pattern) => globSync(pattern, { cwd: ROOT })))].sort();

export const sourcesOf = (room: string): string[] => globSync(`src/${room}/**/*.ts`, { cwd: ROOT }).sort();

/** Lines that differ from a commit, by file; new files as a whole. */
export function changedSince(ref: string): ReadonlyMap<string, (line: number) => boolean> {
  const diff = execFileSync("git", ["diff", "-U0", "--no-color", ref, "--", "src"], {
    cwd: ROOT,
    encoding: "utf8",
    maxBuffer: 1 << 28,
  });
  const changed = new Map<string, Set<number>>();
  let lines = new Set<number>();
  for (const line of diff.split("\n")) {
    const [, file] = /^\+\+\+ b\/(.+)$/.exec(line) ?? [];
    if (file !== undefined) changed.set(file, (lines = new Set()));
    const [, first, count = "1"] = /^@@ \S+ \+(\d+)(?:,(\d+))? @@/.exec(line) ?? [];
    for (let each = 0; first !== undefined && each < Number(count); each++) lines.add(Number(first) + each);
  }
  return new Map([...changed].map(([file, its]) => [file, (line: number) => its.has(line)]));
}
