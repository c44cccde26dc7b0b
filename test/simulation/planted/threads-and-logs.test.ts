// Tests that the simulation finds planted bugs of threads, rings, sockets, logs and restarts.

import { describe, it } from "node:test";
import { plantedTests } from "./canary.ts";
import { PLANTED_BUGS } from "./planted-bugs.ts";
import { PLANTED_LOG_BUGS } from "./planted-log-bugs.ts";
import { PLANTED_LOOP_BUGS } from "./planted-loop-bugs.ts";
import { PLANTED_MOVE_BUGS } from "./planted-migration-bugs.ts";
import { PLANTED_RESTART_BUGS } from "./planted-restart-bugs.ts";

/** Seeds that last found the bugs that the first seed misses: they come first. */
const FOUND_LAST: Readonly<Record<string, number>> = {
  "a thread announces its sleep after it has looked for work": 7,
  "a claim always succeeds": 24,
  "a waiter is claimed and removed, but not served": 14,
  "an acceptor answers without claiming the wait": 6,
  "a take ignores its bound": 41,
  "a WaitDue is lost": 9,
  "a half-close does not reach the engine": 10,
  "an end overtakes what its client has under way": 5,
  "a failed socket is closed before its shards know of it": 4,
  "a kick goes on with delayed jobs": 14,
  "a body is freed while it is sent": 8,
  "a body does not stay where a socket sends it from": 6,
  "bytes that come into an arena are put behind their place": 14,
  "the directory names the wrong shard": 159,
  "a thread sleeps for want of room and asks nobody to ring": 7,
  "an acceptor sleeps for want of room and asks nobody to ring": 17,
  "a long reply gets no credit": 13,
  "a reply that goes around through a shard is not counted": 9,
  "a reserve over several shards that may not wait forgets the jobs that the client holds": 9,
  "a client is refused before other acceptors have looked for the end of a holder": 5,
  "commands are published but not in their order": 3,
  "the number synced is published too early": 8,
  "a shard counts on the log to ring for replies whose records were written before": 153,
  "a shard shows the log its records before it publishes their replies": 6,
  "a sync under -f MS comes too late": 23,
  "a deleted job comes back": 6,
  "a piece of a long body is lost": 6,
  "two records of a shard are swapped": 8,
  "a timeout makes no record": 6,
  "a restart forgets the priority": 6,
  "a delay starts anew with the server": 6,
  "a buried job comes back ready": 11,
  "a restart gives the last id once more": 15,
  "a job is seen before its id is lent": 2,
  "a put is taken although the log is full": 11,
  "a drain is not heard": 3,
  "a drain lets a put through": 3,
  "a shard does not look once more after it has announced its sleep": 3,
  "a thread does not wake for what its shards have due": 8,
  "of the acceptors of a thread only the first is asked whether there is work": 12,
  "an acceptor does not look at the log once more after it has announced its sleep": 8,
  "an acceptor does not look for room before it sleeps": 3,
  "a shard rings no acceptor that waits for room": 17,
  "an acceptor rings no shard that waits for room": 7,
  "the log rings no shard that waits for room": 17,
  "the log has room again and rings no shard": 59,
  "a shard in the middle of a command waits for room and asks nobody to ring": 17,
  "a shard in the middle of a command does not show the log what it has": 6,
  "what was read while a connection left is lost": 28,
  "a connection that moves forgets what it watches": 11,
  "a connection that moves is not known where it was": 11,
  "a connection that moves is no producer any more": 12,
  "a message between acceptors gets lost": 12,
  "an Adopt gets lost": 12,
  "a connection that holds a job moves": 5,
  "a shard does not wait until a session has lost its old place": 35,
  "of jobs that could have a key the one with the smallest id has it at a start": 13,
  "a job that moves frees its key, although it is to be remembered": 13,
  "the first reservation, which ends a key, is not logged": 10,
  "a job that a put replaces has its old body after a restart": 4,
  "a part of a body is copied from the wrong place": 2,
  "of more than 40 commands behind a wait one is dropped": 3,
  "a thread does not ring another": 2,
  "the log does not look at its rings once more after it has announced its sleep": 2,
  "the log of a thread that serves is not due when it waits for room, or for a sync": 2,
  "a reply leaves before its record is written": 2,
  "the number written is published before the write": 2,
  "nobody is rung when records are durable": 2,
  "a sync that failed is taken for one that worked": 30,
  "the record of a release, kick or burial is lost": 2,
  "buried jobs come back in another order": 14,
};

/** Bugs that occur too seldom unless puts often have the key of a job that is there. */
const DRAWN = {
  "of jobs that could have a key the one with the smallest id has it at a start": { duplicates: true },
  "a job that a put replaces has its old body after a restart": { duplicates: true },
};

const TESTS = plantedTests(
  [...PLANTED_BUGS, ...PLANTED_LOOP_BUGS, ...PLANTED_LOG_BUGS, ...PLANTED_MOVE_BUGS, ...PLANTED_RESTART_BUGS],
  FOUND_LAST,
  DRAWN,
);

describe("simulation with a planted bug of threads and logs", () => {
  for (const { name, skip, run } of TESTS) it(name, { skip }, run);
});
