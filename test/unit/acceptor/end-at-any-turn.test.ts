// Tests of clients that disconnect, or whose token is revoked, at any turn of a command: no job
// stays with them, no shard waits for them, and no byte of a body is left behind. After a
// revocation, the client gets no more jobs.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hashOf } from "../../../src/access/secrets.ts";
import { parseTokenFile } from "../../../src/access/token-file.ts";
import { JobState } from "../../../src/engine/jobs/job-table.ts";
import { Counter } from "../../../src/message/topology.ts";
import { GuardedHandDriven } from "../../support/in-process/guarded-hand-driven.ts";
import { HandDrivenServer } from "../../support/in-process/hand-driven-server.ts";
import { skipVariant } from "../../support/whole.ts";

const SECRET = "rb1_once-good";
const TOKENS = parseTokenFile(`root admin sha256:${hashOf(SECRET)}`).tokens;
const RING_BYTES = 1 << 16;
/** On several shards. */
const TUBES = ["a", "b", "c", "d", "e"];
const WATCH = TUBES.map((tube) => `watch ${tube}\r\n`).join("");
const TURNS_MAX = 15;
/** Turns before the end at which others put jobs. */
const LATER_TURNS = [0, 1, 3];
const END_TURNS_MAX = 2000;

const put = (tube: string, bytes: number): string =>
  `put-in-tube ${tube} 0 0 60 ${bytes}\r\n${"x".repeat(bytes)}\r\n`;
const putInAll = (bytes: number): string => TUBES.map((tube) => put(tube, bytes)).join("");

interface Operation {
  /** Jobs that are there before. */
  readonly jobs: string;
  /** Puts of another client while it is under way. */
  readonly later: string;
  readonly said: string;
  readonly reads?: boolean;
}

const OPERATIONS: Readonly<Record<string, Operation>> = {
  "a wait in one tube": { jobs: "", later: put("default", 3), said: "reserve-with-timeout 60\r\n" },
  "a wait in tubes of several shards": { jobs: "", later: putInAll(3), said: `${WATCH}reserve\r\n` },
  "a wait for a batch": { jobs: "", later: putInAll(3), said: `${WATCH}reserve-batch 9 60\r\n` },
  "a wait for a batch that may be aborted": {
    ...{ jobs: "", later: putInAll(3) },
    said: `${WATCH}reserve-batch 9 60 abort=yes\r\n`,
  },
  "a job of one of several shards": { jobs: putInAll(3), later: "", said: `${WATCH}reserve\r\n` },
  "a batch of several shards": { jobs: putInAll(9000), later: "", said: `${WATCH}reserve-batch 9 0\r\n` },
  "a batch that is not read": {
    ...{ jobs: putInAll(20_000), later: "", said: `${WATCH}reserve-batch 9 0\r\n` },
    reads: false,
  },
  "a long job": { jobs: put("default", 200_000), later: "", said: "reserve\r\n" },
  "a long job that is not read": {
    ...{ jobs: put("default", 200_000), later: put("default", 3), said: "reserve\r\nreserve\r\n" },
    reads: false,
  },
  "many reserves that are not read": {
    ...{ jobs: put("default", 20_000).repeat(9), later: put("default", 3), said: "reserve\r\n".repeat(12) },
    reads: false,
  },
  "a job by its id": { jobs: putInAll(3), later: "", said: "reserve-job 4\r\nreserve-job 2\r\n" },
  "half a long put": { jobs: "", later: "", said: put("b", 150_000).slice(0, 90_000) },
  "a long put and the next": { jobs: "", later: "", said: put("b", 150_000) + put("c", 70_000) },
  "what is done with many jobs": {
    ...{ jobs: putInAll(3), later: put("a", 3) },
    said: `${WATCH}reserve\r\nreserve\r\nreserve\r\ntouch-all\r\ndelete-batch 4,5\r\nbury 1 0\r\nkick 9\r\nlist-jobs *\r\n`,
  },
};

type End = (scene: ReturnType<typeof sceneOf>) => void;

const ENDS: Readonly<Record<string, End>> = {
  "goes away": ({ server, client }) => server.disconnect(client),
  "half-closes and goes away": ({ server, client }) => {
    client.connection.onEnd();
    server.turn();
    server.disconnect(client);
  },
  "has its token taken away": (scene) => {
    const before = scene.client.take();
    scene.guarded.reload([]);
    expectRevoked(scene, before);
  },
};

/** A server, an authenticated client with a command sent, and another client. */
function sceneOf({ jobs, said, reads = true }: Operation) {
  const server = new HandDrivenServer(3, undefined, { ringBytes: RING_BYTES });
  const guarded = new GuardedHandDriven(TOKENS, server);
  const other = server.connect(true);
  other.say(jobs);
  server.settle();
  other.take();
  const client = guarded.connect(reads);
  client.say(`auth ${SECRET}\r\n`);
  server.settle();
  if (!reads) client.read();
  assert.equal(client.take(), "AUTHENTICATED\r\n");
  client.say(said);
  return { guarded, server, other, client, reads };
}

/** Takes all jobs, and deletes them; returns how many there were. */
function takeAll(server: HandDrivenServer): number {
  const client = server.connect(true);
  client.say(`${WATCH}${TUBES.map((tube) => `use ${tube}\r\nkick 99\r\n`).join("")}`);
  server.settle();
  client.take();
  for (let taken = 0; ; taken++) {
    client.say("reserve-with-timeout 0\r\n");
    server.settle();
    const id = /^RESERVED (\d+)/.exec(client.take())?.[1];
    if (id === undefined) return taken;
    client.say(`delete ${id}\r\n`);
    server.settle();
    assert.equal(client.take(), "DELETED\r\n");
  }
}

function expectNothingLeft(server: HandDrivenServer, open: number): void {
  server.settle();
  assert.equal(server.acceptor.open, open, "the connection is closed");
  assert.equal(server.acceptor.pendingReplies.expecting, 0, "no answer is pending");
  for (const shard of server.shards) {
    shard.updateGauges();
    assert.equal(shard.engine.jobCounts[JobState.Reserved], 0, "no job is reserved");
    assert.equal(shard.counters[Counter.Waiting], 0, "no client waits for a job");
  }
  const jobs = jobsOf(server);
  assert.equal(takeAll(server), jobs, "every job can be had");
  assert.equal(jobsOf(server), 0);
  for (const { engine } of server.shards)
    assert.equal(engine.bodies.usedBytes, 0, "no body stays, and none is pinned");
}

function jobsOf(server: HandDrivenServer): number {
  const states = [JobState.Ready, JobState.Reserved, JobState.Delayed, JobState.Buried];
  return server.shards
    .flatMap(({ engine }) => states.map((state) => engine.jobCounts[state]!))
    .reduce((sum, count) => sum + count, 0);
}

/** Returns how many turns the undisturbed operation takes. */
function turnsOf(operation: Operation): number {
  const { server, other } = sceneOf(operation);
  other.say(operation.later);
  let turns = 1;
  while (server.turn()) turns++;
  return Math.min(turns, TURNS_MAX);
}

/** Plays it up to the turn; what others put comes so many turns before its end. */
function play(operation: Operation, end: End, turns: number, since: number): void {
  const scene = sceneOf(operation);
  const { server, other, client, reads } = scene;
  const { open } = server.acceptor;
  for (let turn = 0; turn < turns - since; turn++) server.turn();
  other.say(operation.later);
  for (let turn = 0; turn < since; turn++) server.turn();
  if (!reads && turns % 2 === 1) client.read();
  try {
    end(scene);
    expectNothingLeft(server, open - 1);
  } catch (error) {
    throw new Error(`after ${turns} turns, ${since} of them with later jobs`, { cause: error });
  }
}

describe("a client whose connection ends at any turn", () => {
  for (const [row, [what, operation]] of Object.entries(OPERATIONS).entries())
    for (const [column, [how, end]] of Object.entries(ENDS).entries())
      it(`leaves nothing of ${what}, because it ${how}`, { skip: skipVariant(row + column, 2) }, () => {
        const last = turnsOf(operation);
        // Where others put nothing, when they don't makes no difference.
        const sinces = operation.later === "" ? [0] : LATER_TURNS;
        for (let turns = 0; turns <= last; turns++)
          for (const since of sinces) play(operation, end, turns, since);
      });
});

/**
 * It is told so and nothing else, unless a reply is half sent, which stays so; it reads up to its
 * end.
 */
function expectRevoked({ server, client, reads }: ReturnType<typeof sceneOf>, before: string): void {
  for (let turn = 0; !client.ended; turn++) {
    assert.ok(turn < END_TURNS_MAX, "the end comes");
    if (!reads) client.read();
    server.turn();
  }
  if (!reads) client.read();
  server.disconnect(client);
  const text = before + client.take();
  assert.ok(text.endsWith("UNAUTHORIZED\r\n") || !isWhole(text), `it is told so: ${text.slice(-100)}`);
}

/** Returns whether the text ends with a whole reply. */
function isWhole(text: string): boolean {
  let at = 0;
  while (at < text.length) {
    const lineEnd = text.indexOf("\r\n", at);
    if (lineEnd < 0) return false;
    const words = text.slice(at, lineEnd).split(" ");
    at = lineEnd + 2;
    if (words[0] === "RESERVED" || words[0] === "FOUND" || words[0] === "OK") at += Number(words.at(-1)) + 2;
  }
  return at === text.length;
}
