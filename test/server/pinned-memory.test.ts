// Tests of the memory that a client can pin: every command, repeated in less than 10 KB, by clients
// that read or don't, behind a wait, and half-closed. All memory counts, of the engine's thread and
// of the acceptor's.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { buffers } from "../../src/acceptor/stream/output.ts";
import { COMMANDS, commandName, FIELDS } from "../../src/protocol/commands.ts";
import { type Arguments, GOOD_ARGUMENTS, lineOf } from "../support/conversations/command-lines.ts";
import { HandDrivenServer } from "../support/in-process/hand-driven-server.ts";
import { memoryInUse, settledBytes } from "../support/machine/memory-in-use.ts";
import { skipVariant } from "../support/whole.ts";

const KIB = 1024;
/** A client's commands of a case. */
const SENT_BYTES_MAX = 10_000;
/** Memory that a client may pin besides one reply: see docs/architecture/connections.md. */
const PINNED_BYTES_MAX = 64 * KIB;
/** Memory that all of the first situation may leave behind: retained buffers and compiled code. */
const LEFT_FIRST_BYTES_MAX = 12 * 1024 * KIB;
/** Memory that all of a later situation may. */
const LEFT_BYTES_MAX = 2 * 1024 * KIB;
const CLIENTS = 12;
/** Commands measured together: nearly all of the time goes to garbage collections. */
const TOGETHER = 4;
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
    (command) =>
      ODD[commandName(command)] ?? [
        lineOf(command, PRESENT) + (FIELDS[command.args].includes("bytes") ? "\r\n" : ""),
      ],
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

/**
 * Lines that are measured together: in `npm test`, half of them in turn, the same in all
 * situations, for only the first may compile code.
 */
function* linesInTurn(): Iterable<readonly string[]> {
  for (let from = 0; from < LINES.length; from += TOGETHER)
    if (skipVariant(from / TOGETHER, 2) === false) yield LINES.slice(from, from + TOGETHER);
}

const kib = (bytes: number): string => `${Math.round(bytes / KIB)} KiB`;

describe("a client that has sent less than 10 KB pins no more than a little and one reply", () => {
  for (const shards of [1, 2]) {
    it(`with ${shards} ${shards === 1 ? "shard" : "shards"}`, () => {
      const table: string[] = [];
      const server = new HandDrivenServer(shards);
      store(server);
      let leftMax = LEFT_FIRST_BYTES_MAX;
      for (const situation of SITUATIONS) {
        // One shard differs from several in its conversations, not in its readers.
        if (shards === 1 && (situation.reads || situation.halfClosed)) continue;
        const leftBehind = (): number => {
          const before = memoryBytes();
          for (const lines of linesInTurn())
            for (const [command, pinned] of tooMuch(server, situation, lines))
              table.push(`${situation.name.padEnd(24)} ${JSON.stringify(command).padEnd(30)} ${kib(pinned)}`);
          return settledBytes(leftMax, () => memoryBytes() - before);
        };
        let left = leftBehind();
        // Code that was compiled meanwhile is not compiled again; what clients leave comes again.
        if (left > leftMax) left = leftBehind();
        if (left > leftMax)
          table.push(`${situation.name.padEnd(24)} ${"all, after they left".padEnd(30)} ${kib(left)}`);
        leftMax = LEFT_BYTES_MAX;
      }
      assert.equal(table.join("\n"), "");
    });
  }
});

/**
 * Returns the commands whose clients pin too much. What some pin together none of them exceeds, as
 * no command frees jobs: they are measured one by one only if together it is too much for one.
 */
function tooMuch(
  server: HandDrivenServer,
  situation: Situation,
  commands: readonly string[],
): readonly [string, number][] {
  const pinned = pinnedBytes(server, situation, commands);
  if (pinned <= LIMIT_BYTES) return [];
  const half = commands.length >> 1;
  if (half > 0)
    return [commands.slice(0, half), commands.slice(half)].flatMap((some) =>
      tooMuch(server, situation, some),
    );
  // Measured again: the first time its code is compiled, and what it shares with others gets its
  // size.
  const least = Math.min(pinned, pinnedBytes(server, situation, commands));
  return least <= LIMIT_BYTES ? [] : [[commands[0]!, least]];
}

/** Returns the bytes that one client of each command pins beyond the usage without them. */
function pinnedBytes(server: HandDrivenServer, situation: Situation, commands: readonly string[]): number {
  const before = memoryBytes();
  const all = commands.map((command) => {
    const line = `${command}\r\n`;
    const text = line.repeat(Math.floor(SENT_BYTES_MAX / line.length));
    return { text, clients: Array.from({ length: CLIENTS }, () => server.connect(situation.reads)) };
  });
  const clients = all.flatMap((each) => each.clients);
  for (const client of clients) {
    client.forgets = true;
    client.say(situation.before);
  }
  server.settle();
  for (const each of all)
    for (const client of each.clients) {
      client.say(each.text);
      if (situation.halfClosed) client.connection.onEnd();
    }
  server.settle();
  const measure = (): number => memoryBytes() - before;
  const pinned = commands.length === 1 ? settledBytes(CLIENTS * LIMIT_BYTES, measure) : measure();
  for (const client of clients) server.disconnect(client);
  server.settle();
  return pinned / CLIENTS;
}
