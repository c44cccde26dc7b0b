// Tests of the memory that a client can pin: every command, repeated in less than 10 KB, by clients
// that read or don't, behind a wait, and half-closed. All memory counts, of the engine's thread and
// of the acceptor's.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { buffers } from "../../src/acceptor/input/buffer-pool.ts";
import { COMMANDS, commandName, hasBody } from "../../src/protocol/commands.ts";
import { type Arguments, GOOD_ARGUMENTS, lineOf } from "../support/conversations/command-lines.ts";
import { HandDrivenServer } from "../support/in-process/hand-driven-server.ts";
import { memoryInUse, settledBytes } from "../support/machine/memory-in-use.ts";

const KIB = 1024;
/** A client's commands of a case. */
const SENT_BYTES_MAX = 10_000;
/** Memory that a client may pin besides one reply: see docs/architecture/connections.md. */
const PINNED_BYTES_MAX = 64 * KIB;
/** Memory that all of them may leave behind: retained buffers and compiled code. */
const LEFT_BYTES_MAX = 8 * 1024 * KIB;
const CLIENTS = 12;
const BODY_BYTES = 60_000;

/** Buffers come in powers of two. */
const LIMIT_BYTES = PINNED_BYTES_MAX + 2 * BODY_BYTES;

/** The pool's memory belongs to no client and is bounded in total. */
const memoryBytes = (): number => memoryInUse() - buffers.keptBytes;

/** Tubes and jobs that are there. */
const PRESENT: Arguments = { ...GOOD_ARGUMENTS, bytes: "0", bound: "0" };
/** Commands with other arguments: in several ways, or so that the jobs stay as they are. */
const ODD: Readonly<Record<string, readonly string[]>> = {
  // A body that ends where it should not.
  put: ["put 0 0 60 0\r\nx"],
  "reserve-with-timeout": ["reserve-with-timeout 0", "reserve-with-timeout 99"],
  delete: ["delete 999999"],
  "kick-job": ["kick-job 999999"],
  use: ["use default", "use elsewhere"],
  watch: ["watch big"],
  ignore: ["ignore nothing"],
  // Clients that quit aren't asked any more.
  quit: [],
};

/** Every command, and a line that is no command. */
const LINES: readonly string[] = [
  ...COMMANDS.flatMap(
    (command) => ODD[commandName(command)] ?? [lineOf(command, PRESENT) + (hasBody(command) ? "\r\n" : "")],
  ),
  "nonsense",
];

interface Situation {
  readonly name: string;
  readonly reads: boolean;
  readonly before: string;
  readonly halfClosed: boolean;
}

const SITUATIONS: readonly Situation[] = [
  { name: "reads", reads: true, before: "", halfClosed: false },
  { name: "does not read", reads: false, before: "", halfClosed: false },
  {
    name: "waits on one shard",
    reads: false,
    before: "watch empty\r\nignore default\r\nreserve\r\n",
    halfClosed: false,
  },
  {
    name: "waits for several tubes",
    reads: false,
    before: "watch empty\r\nwatch empty2\r\nwatch empty3\r\nignore default\r\nreserve\r\n",
    halfClosed: false,
  },
  { name: "half-closed", reads: false, before: "", halfClosed: true },
];

function store(server: HandDrivenServer): void {
  const keeper = server.connect(true);
  const body = "x".repeat(BODY_BYTES);
  keeper.say(`put 0 0 60 ${BODY_BYTES}\r\n${body}\r\nput 1 0 60 ${BODY_BYTES}\r\n${body}\r\n`);
  server.settle();
  keeper.say("reserve\r\nbury 1 0\r\nuse default\r\n");
  server.settle();
  keeper.say(`put 0 1000 60 ${BODY_BYTES}\r\n${body}\r\n`);
  for (let job = 0; job < 3 * CLIENTS; job++) keeper.say(`put 0 0 60 ${BODY_BYTES}\r\n${body}\r\n`);
  server.settle();
}

const kib = (bytes: number): string => `${Math.round(bytes / KIB)} KiB`;

describe("a client that has sent less than 10 KB pins no more than a little and one reply", () => {
  for (const shards of [1, 2]) {
    it(`with ${shards} ${shards === 1 ? "shard" : "shards"}`, () => {
      const table: string[] = [];
      const server = new HandDrivenServer(shards);
      store(server);
      for (const situation of SITUATIONS) {
        // One shard differs from several in its conversations, not in its readers.
        if (shards === 1 && (situation.reads || situation.halfClosed)) continue;
        const before = memoryBytes();
        for (const command of LINES) {
          const pinned = leastPinnedBytes(server, situation, `${command}\r\n`);
          if (pinned <= LIMIT_BYTES) continue;
          table.push(`${situation.name.padEnd(24)} ${JSON.stringify(command).padEnd(30)} ${kib(pinned)}`);
        }
        const left = settledBytes(LEFT_BYTES_MAX, () => memoryBytes() - before);
        if (left > LEFT_BYTES_MAX)
          table.push(`${situation.name.padEnd(24)} ${"all, after they left".padEnd(30)} ${kib(left)}`);
      }
      assert.equal(table.join("\n"), "");
    });
  }
});

/**
 * Measured again if it is too much: the first time its code is compiled, and what it shares with
 * others gets its size.
 */
function leastPinnedBytes(server: HandDrivenServer, situation: Situation, line: string): number {
  const first = pinnedBytes(server, situation, line);
  return first <= LIMIT_BYTES ? first : Math.min(first, pinnedBytes(server, situation, line));
}

/** Returns the bytes that each of some clients pins beyond the usage without them. */
function pinnedBytes(server: HandDrivenServer, situation: Situation, line: string): number {
  const before = memoryBytes();
  const clients = Array.from({ length: CLIENTS }, () => server.connect(situation.reads));
  for (const client of clients) {
    client.forgets = true;
    client.say(situation.before);
  }
  server.settle();
  const text = line.repeat(Math.floor(SENT_BYTES_MAX / line.length));
  for (const client of clients) {
    client.say(text);
    if (situation.halfClosed) client.connection.onEnd();
  }
  server.settle();
  const pinned = settledBytes(CLIENTS * LIMIT_BYTES, () => memoryBytes() - before) / CLIENTS;
  for (const client of clients) server.disconnect(client);
  server.settle();
  return pinned;
}
