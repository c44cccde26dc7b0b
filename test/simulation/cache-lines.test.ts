// Tests of the layout of shared memory: who writes each word, and which cache lines two threads
// write. A line that two threads write for each command goes back and forth between their cores.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { before, describe, it } from "node:test";
import { openBinlog } from "../../src/binlog/open-binlog.ts";
import { COUNTERS_PER_ROLE, ControlWord, type Placement } from "../../src/message/topology.ts";
import { turnCountsOf } from "../../src/message/turn-counters.ts";
import { DOORBELL_WORDS } from "../../src/ring/doorbell.ts";
import { DATA_OFFSET, HEAD_WORD, WANTED_WORD } from "../../src/ring/ring.ts";
import { LogWord } from "../../src/ring/shared-words.ts";
import { virtualOptions } from "../binlog/sample/sample-log.ts";
import { VirtualDisk } from "../binlog/virtual-disk.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { InProcessServer } from "./server/in-process-server.ts";
import { LineWriters, memoriesOf, SHIFTS, type SharedLine, type WrittenWord } from "./server/line-writers.ts";

const SHARDS = 2;
const ACCEPTORS = 2;
const CLIENTS = 6;
const ROUNDS = 8;
const STEPS_MAX = 200_000;

interface Played {
  readonly words: readonly WrittenWord[];
  readonly lines: readonly SharedLine[];
  readonly puts: number;
  readonly server: InProcessServer;
}

/** Clients put, reserve and delete in tubes of their own. */
async function play(placement: Placement): Promise<Played> {
  const disk = new VirtualDisk();
  const opened = await openBinlog({ ...virtualOptions(disk), shards: SHARDS, segmentBytes: 128 * 1024 });
  const server = new InProcessServer({
    ...{ shards: SHARDS, acceptors: ACCEPTORS, placement, random: new SeededRandom(1) },
    ...{ ringBytes: 4096, pollChance: 0.5, holdUps: 0.1 },
    log: {
      ...{ disk, opened, repliesWaitFor: LogWord.Synced },
      ...{ recordRingBytes: 4096, wallOffsetMs: 1_700_000_000_000 },
    },
  });
  server.restore();
  const clients = Array.from({ length: CLIENTS }, () => server.connect());
  for (const [index, client] of clients.entries())
    client.write(Buffer.from(`use t${index}\r\nwatch t${index}\r\nignore default\r\n`));
  server.settle();
  for (const client of clients) client.takeReceived();
  const writers = new LineWriters(memoriesOf(server.topology));
  const settle = (): void => {
    for (let steps = 0; server.step(); steps++) {
      assert.ok(steps < STEPS_MAX, "the server comes to rest");
      writers.look(server.running!.name);
    }
  };
  const work = (rounds: number): void => {
    for (let round = 0; round < rounds; round++) {
      for (const client of clients) client.write(Buffer.from("put 0 0 60 1\r\nx\r\nreserve\r\n"));
      settle();
      for (const client of clients) {
        const [, id] = /RESERVED (\d+) 1/.exec(client.takeReceived().toString("latin1"))!;
        client.write(Buffer.from(`delete ${id}\r\n`));
      }
      settle();
      for (const client of clients) assert.equal(client.takeReceived().toString("latin1"), "DELETED\r\n");
    }
  };
  // The first put waits for the log to lend ids, within the step of its shard.
  work(1);
  writers.forget();
  writers.during(
    () => server.running!.name,
    () => work(ROUNDS),
  );
  return { words: writers.words(), lines: writers.shared(), puts: CLIENTS * ROUNDS, server };
}

describe("shared memory", () => {
  const played = new Map<Placement, Played>();
  before(async () => {
    for (const placement of ["apart", "together"] as const) played.set(placement, await play(placement));
  });

  it("has for each word the writers that docs/architecture/shared-memory.md names", () => {
    const { words } = played.get("apart")!;
    const wrong = words.flatMap(({ memory, offset, threads }) => {
      const allowed = writersOf(memory, offset);
      return threads
        .filter((thread) => !allowed.test(thread))
        .map((thread) => `${memory}, ${offset}: ${thread}`);
    });
    assert.deepEqual(wrong, []);
    const memories = new Set(words.map(({ memory }) => memory.replace(/\[.*/, "")));
    assert.deepEqual(
      [...memories].sort(),
      [
        ...["binlog.progress", "binlog.rings", "control", "counters", "directory", "doorbells"],
        ...["requests", "responses"],
      ],
      "the load has written to all that commands write to",
    );
  });

  for (const placement of ["apart", "together"] as const)
    it(`has two lines that several threads write for a put, and none for another command (${placement})`, () => {
      const { lines, puts, server } = played.get(placement)!;
      const others = lines.filter(({ memory, offset }) => !isOfIds(memory, offset) && memory !== "doorbells");
      assert.deepEqual(others, []);
      const ids = lines.find(({ memory }) => memory === "control")!;
      const taken = [...ids.writes.values()].reduce((sum, count) => sum + count, 0);
      assert.equal(taken, puts, "a put takes an id by one write");
      // Whoever sleeps writes its bell, and others only to wake it.
      const rings = lines
        .filter(({ memory }) => memory === "doorbells")
        .flatMap(({ offset, writes }) =>
          [...writes].filter(([thread]) => thread !== ownerOf(server, offset)).map(([, count]) => count),
        )
        .reduce((sum, count) => sum + count, 0);
      const wakes = turnCountsOf(server.topology).reduce((sum, each) => sum + each.wakes, 0);
      assert.ok(rings > 0, "threads wake each other");
      assert.ok(rings <= wakes * SHIFTS.length, `${rings} rings, ${wakes} wakes`);
    });

  it("documents each word of control at its place", () => {
    const page = readFileSync(new URL("../../docs/architecture/shared-memory.md", import.meta.url), "utf8");
    const missing = Object.entries(ControlWord).filter(([name, word]) => {
      const row = page.split("\n").find((line) => new RegExp(`\\b${name}\\b`).test(line.split("|")[2] ?? ""));
      return (
        row === undefined || !placesIn(row).some(([first, last]) => word * 4 >= first && word * 4 <= last)
      );
    });
    assert.deepEqual(missing, []);
  });
});

/** The ids of jobs: their counter, and the table of their shards. */
const isOfIds = (memory: string, offset: number): boolean =>
  memory === "directory" || (memory === "control" && offset >> 6 === ControlWord.JobIds >> 4);

function ownerOf(server: InProcessServer, offset: number): string {
  const { threads } = server.topology;
  const thread = threads[Math.floor(offset / (DOORBELL_WORDS * 4))];
  if (thread === undefined) return "binlog";
  return thread.acceptors.length > 0 ? `acceptor ${thread.acceptors[0]}` : `shard ${thread.shards[0]}`;
}

/** The offsets in a row of the table: 704 to 832, or single ones. */
function placesIn(row: string): [first: number, last: number][] {
  const cell = row.split("|")[2]!;
  return [...cell.matchAll(/\b(\d+)(?: to (\d+))?/g)].map(([, first, last = first]) => [
    Number(first),
    Number(last),
  ]);
}

/** The threads that may write a word, where each role has its own. */
function writersOf(memory: string, offset: number): RegExp {
  const [, name = "", from = "", to = ""] = /^([\w.]+)(?:\[(\d+)\])?(?:\[(\d+)\])?$/.exec(memory)!;
  switch (name) {
    case "requests":
      return ringWriters(offset, `acceptor ${from}`, `shard ${to}`);
    case "responses":
      return ringWriters(offset, `shard ${to}`, `acceptor ${from}`);
    case "binlog.rings":
      return ringWriters(offset, `shard ${from}`, "binlog");
    case "binlog.progress":
    case "binlog.files":
      return /^binlog$/;
    case "counters":
      return new RegExp(`^${roleAt(offset)}$`);
    case "doorbells":
      return /./;
    case "directory":
      return /^acceptor/;
    case "control":
      return controlWriters(offset >> 2);
    default:
      return /^$/;
  }
}

function controlWriters(word: number): RegExp {
  if (word === ControlWord.JobIds || word === ControlWord.JobIds + 1) return /^acceptor/;
  return word >= ControlWord.MemoryUsed && word <= ControlWord.MemoryFull ? /^shard/ : /^binlog$/;
}

function ringWriters(offset: number, writer: string, reader: string): RegExp {
  if (offset === WANTED_WORD * 4) return new RegExp(`^(${writer}|${reader})$`);
  return new RegExp(`^${offset >= HEAD_WORD * 4 && offset < DATA_OFFSET ? reader : writer}$`);
}

function roleAt(offset: number): string {
  const role = Math.floor(offset / (COUNTERS_PER_ROLE * 8));
  if (role < SHARDS) return `shard ${role}`;
  return role < SHARDS + ACCEPTORS ? `acceptor ${role - SHARDS}` : "binlog";
}

describe("LineWriters", () => {
  const watched = (): { buffer: SharedArrayBuffer; words: Int32Array; writers: LineWriters } => {
    const buffer = new SharedArrayBuffer(256);
    return { buffer, words: new Int32Array(buffer), writers: new LineWriters(new Map([["words", buffer]])) };
  };

  it("finds a line with words of two threads, and none where the words are 64 bytes apart", () => {
    for (const [word, isShared] of [
      [1, true],
      [15, true],
      [16, false],
    ] as const) {
      const { words, writers } = watched();
      writers.during(
        () => "a",
        () => Atomics.store(words, 0, 1),
      );
      writers.during(
        () => "b",
        () => Atomics.store(words, word, 0),
      );
      assert.equal(writers.shared().length > 0, isShared, `word ${word}`);
    }
  });

  it("sees plain writes, and each atomic write once", () => {
    const { words, writers } = watched();
    writers.during(
      () => "a",
      () => Atomics.add(words, 3, 1),
    );
    writers.look("a");
    words[3] = 7;
    writers.look("b");
    const [line] = writers.shared();
    assert.deepEqual(Object.fromEntries(line!.writes), { a: 1, b: 1 });
  });

  it("leaves Atomics as they were", () => {
    const { store } = Atomics;
    const { writers } = watched();
    assert.throws(() =>
      writers.during(
        () => "a",
        () => assert.fail("work"),
      ),
    );
    assert.equal(Atomics.store, store);
  });
});
