// Tests that run the simulation over a few dozen seeds, and prove its sensitivity with planted
// bugs. Thousands of seeds: npm run simulate -- --seeds 5000

import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { findOf } from "../support/planted-find.ts";
import { everySecond, inWhole, SKIP_UNTIL_NIGHT, skipVariant } from "../support/whole.ts";
import { PLANTED_BATCH_BUGS } from "./planted/planted-batch-bugs.ts";
import type { PlantedBug } from "./planted/planted-bug.ts";
import { PLANTED_BUGS } from "./planted/planted-bugs.ts";
import { PLANTED_CANCEL_BUGS } from "./planted/planted-cancel-bugs.ts";
import { PLANTED_FLOW_BUGS } from "./planted/planted-flow-bugs.ts";
import { PLANTED_JOB_BUGS } from "./planted/planted-job-bugs.ts";
import { PLANTED_JOB_MOVE_BUGS } from "./planted/planted-job-move-bugs.ts";
import { PLANTED_LOG_BUGS } from "./planted/planted-log-bugs.ts";
import { PLANTED_LOOP_BUGS } from "./planted/planted-loop-bugs.ts";
import { PLANTED_MOVE_BUGS } from "./planted/planted-migration-bugs.ts";
import { PLANTED_POLICY_BUGS } from "./planted/planted-policy-bugs.ts";
import { PLANTED_RESTART_BUGS } from "./planted/planted-restart-bugs.ts";
import { PLANTED_WEIGHT_BUGS } from "./planted/planted-weight-bugs.ts";
import { parseSteps } from "./shrink.ts";
import { simulate } from "./simulation.ts";
import type { SimulationOptions } from "./simulation-state.ts";

/**
 * `npm test` plays every second one of the first dozen; others with SEED=n, and thousands with
 * `npm run simulate`.
 */
const FIRST_SEED = Number(process.env["SEED"] ?? 1);
const SEEDS = everySecond(Array.from({ length: inWhole(60, 12) }, (_, index) => FIRST_SEED + index));
interface Found extends Pick<SimulationOptions, "seed" | "durable" | "jobMoves" | "flows"> {
  readonly what: string;
  readonly only?: string;
  readonly extensions?: true;
}
const DURABLE = { durable: true, jobMoves: true, extensions: true } as const;
/**
 * Seeds that found something once: what, and where it was mended; and whether that needs commands
 * of our own, and policies with a log.
 */
const FOUND: readonly Found[] = [
  {
    seed: 49,
    what: "a kill while a tail was repaired, then a power cut: the start was refused (log-recovery.ts)",
  },
  {
    seed: 11,
    what: "a long reply to reserve-job left before its record was durable (replies.ts)",
  },
  {
    seed: 200946,
    only: "0-3,12-15,27-39,41-47,49,52,54,56,62,66-67,69-70,80,83,86-89,91,96,98-99,110-117,119-121,129,131,138,140,150-153",
    what: "a kill before a new segment's name was durable, then a power cut: the start was refused (log-recovery.ts)",
  },
  {
    seed: 1205,
    extensions: true,
    what: "a tube that goes with its last job while another is put is looked for in vain (witness.ts)",
  },
  {
    seed: 1745,
    extensions: true,
    what: "a job expires between the model's totals and those of stats (simulation.ts)",
  },
  {
    seed: 676998537,
    extensions: true,
    what: "a job that a clear-tube gives to somebody and ends in the same step is looked for in vain (model.ts)",
  },
  {
    seed: 80309,
    ...DURABLE,
    what: "jobs that die at the same moment come back in another order than the ledger's (durability-ledger.ts)",
  },
  {
    seed: 80478,
    ...DURABLE,
    what: "a put that finds the log full changes the weight of its group (job-commands.ts)",
  },
  {
    seed: 1038,
    flows: true,
    what: "a shard whose batch is due does not sleep while the log can't write (shard-core.ts)",
  },
];
const STEPS = 300;
/** Seeds tried without a find before the test asks for a new seed of the bug. */
const TRIED_MAX = 5;
/** A planted bug must be found within so many seeds. Nights and runs of this file search long. */
const CANARY_RUNS = SKIP_UNTIL_NIGHT === false ? 300 : inWhole(2 * TRIED_MAX, TRIED_MAX);
/**
 * Seeds that last found the bugs that the first seed misses: they come first, because the search
 * from 1 on takes up to a quarter of a minute.
 */
const FOUND_LAST: Readonly<Record<string, number>> = {
  "a batch of one shard goes on behind a lost job": 4,
  "a batch over several shards has a lost job among others": 4,
  "a batch over several shards is not in the order of priorities": 9,
  "an abort has the number of the next batch": 5,
  "an abort ends the wait that comes next": 5,
  "an abort is answered although a job has just come": 15,
  "a composed reply waits for the record of one shard only": 8,
  "a touch of all stops before the last": 4,
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
  "a ready job with another priority keeps its place in the queue": 7,
  "update-job with a new ttr leaves the present reservation as it was": 2,
  "a clear leaves the last job that it should take": 6,
  "a list leaves out the first job": 16,
  "a piece of a long job that moves gets lost": 2,
  "a long job that moves gets no credit": 39,
  "a transfer overtakes the records of its shard": 36,
  "MOVED is said before the record of the other shard is durable": 2,
  "a job that has come serves nobody": 13,
  "a job that has come to a tube of the same shard serves nobody": 16,
  "a command by id does not wait for a job that is on its way": 19,
  "a job that moves while all shards are asked for it is not found": 2302,
  "a command for a job that has moved is answered where it was": 18,
  "buried jobs come in another order": 92,
  "a job that moves forgets its unique key": 13,
  "a key stays behind when its job has gone to another shard": 13,
  "a job comes to a tube that is full": 13,
  "a job that is not taken is lost": 13,
  "a job that moves forgets when it expires": 4,
  "a job that its holder hands on to another shard is no release": 2,
  "a job that its holder hands on to another shard has lost an attempt": 165,
  "a job that its holder hands on, and that is refused, is nobody's": 108,
  "a dead job does not leave for the dead-letter tube of another shard": 92,
  "a dead job is refused by a tube that is full": 45,
  "a dead job lives again where dead ones go": 21,
  "a tube that has room for a byte takes any body": 7,
  "a list of all jobs ends where all of its shards have rested": 42,
  "a job on its way to another shard is not listed": 330,
  "the number synced is published too early": 8,
  "a shard counts on the log to ring for replies whose records were written before": 153,
  "a shard shows the log its records before it publishes their replies": 6,
  "a sync under -f MS comes too late": 8,
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
  "the attributes of a job stay in the arena": 3,
  "attempts are not reset at a kick": 3,
  "a back-off is not spread": 4,
  "a full tube takes one job more": 7,
  "a group's turn is forgotten with its last job": 16,
  "a group at its limit goes on": 16,
  "a limit that is taken away serves nobody": 44,
  "a rate is ignored": 12,
  "nobody who waits is served when there is a token again": 9,
  "a token comes some milliseconds late": 168,
  "a bucket keeps twice as many tokens as it should": 12,
  "a job takes one token, whatever it costs": 21,
  "a job that a put replaces costs what it did": 47,
  "the rate of a group is ignored": 27,
  "a group stays out of tokens until it changes": 27,
  "SET is said before tubes have it": 3,
  "of jobs that could have a key the one with the smallest id has it at a start": 23,
  "the first reservation, which ends a key, is not logged": 10,
  "a job that a put replaces has its old body after a restart": 120,
  "a put that is to debounce a job leaves it as it is": 14,
  "a job that update-job sends to another shard keeps its priority": 18,
  "a put that replaces a job that waits for a batch makes it ready": 139,
  "a tick's job comes into a tube that is full": 14,
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
  "update-job is not logged": 2,
  "a clear is acknowledged and its deletes are not logged": 2,
  "a job is lost between two shards": 2,
  "a job that has moved stays where it was, too": 2,
  "word that jobs have arrived gets lost": 2,
  "a job that has come is not logged where it is": 2,
  "a job that has left is logged as deleted": 2,
  "a job that moves forgets how often it was reserved": 2,
  "a job that moves has another time to run": 2,
  "a delayed job that moves begins its delay anew": 2,
  "a job that moves has another body": 2,
  "a job that has come is not counted": 2,
  "a composed reply does not wait for the records of its shards": 2,
  "a failure is not in the log": 2,
  "the number of lost connections is not in the log": 2,
  "a job that has come from another shard has never failed": 2,
  "a job has one attempt more than it should": 3,
  "a job that a put replaces keeps its priority": 135,
  "buried jobs come back in another order": 14,
  "a batch over several shards is not in the order of turns": 13,
  "ticks come although the server drains": 3,
  "what a worker holds at a cancel is spared by the pass only": 44,
  "what a worker holds at a cancel is spared unlogged": 44,
  "a member that expires and is buried is still open": 4,
  "a job that comes back does not get its key": 129,
  "a cancelled job stays where its holder buries it": 9,
  "another time to live saves a cancelled job": 5,
  "a second reason replaces the first": 3,
  "a job that is given again shows the progress of the last worker": 6,
};

describe("simulation", () => {
  it(`finds nothing in ${SEEDS.length} seeds`, async (t) => {
    t.diagnostic(`seeds ${SEEDS}`);
    for (const each of SEEDS) {
      try {
        const { commands } = await simulate({ seed: each, steps: STEPS });
        assert.ok(commands > 0);
      } catch (error) {
        assert.fail(`${error}\nagain: npm run simulate -- --seed ${each} --steps ${STEPS}`);
      }
    }
  });

  for (const [index, { what, only, extensions = false, ...options }] of FOUND.entries()) {
    it(`no longer finds that ${what}`, { skip: skipVariant(index, 2) }, async () => {
      await simulate({
        ...options,
        steps: STEPS,
        // Where there are batches, all commands are drawn.
        ...(options.flows === true ? {} : { extensions }),
        ...(only === undefined ? {} : { only: parseSteps(only)! }),
      });
    });
  }

  it("gives the same run for the same seed", async () => {
    assert.deepEqual(await simulate({ seed: 42, steps: STEPS }), await simulate({ seed: 42, steps: STEPS }));
  });
});

describe("simulation with a planted bug (canary)", () => {
  const bugs = [
    ...PLANTED_BUGS,
    ...PLANTED_LOOP_BUGS,
    ...PLANTED_LOG_BUGS,
    ...PLANTED_MOVE_BUGS,
    ...PLANTED_JOB_BUGS,
    ...PLANTED_JOB_MOVE_BUGS,
    ...PLANTED_BATCH_BUGS,
    ...PLANTED_POLICY_BUGS,
    ...PLANTED_RESTART_BUGS,
    ...PLANTED_WEIGHT_BUGS,
    ...PLANTED_FLOW_BUGS,
    ...PLANTED_CANCEL_BUGS,
  ];

  /** Seeds that found bugs after a long search: lines for FOUND_LAST. */
  const moved: string[] = [];
  after(() => {
    if (moved.length > 0)
      console.error(
        `NOTE FOUND_LAST in ${import.meta.filename} is out of date, which takes minutes; run by itself, the file says what to change:\n${moved.join("\n")}`,
      );
  });

  const clean = new Set<string>();

  /** A run fails because of its plant only if it passes without. */
  async function assertClean(
    seed: number,
    { plant, createServer, ...options }: PlantedBug["options"],
  ): Promise<void> {
    const run = { seed, steps: STEPS, extensions: false, policies: false, ...options };
    const name = JSON.stringify(run);
    if (clean.has(name)) return;
    await simulate(run);
    clean.add(name);
  }

  it("looks first for bugs that exist", () => {
    for (const name of Object.keys(FOUND_LAST))
      assert.ok(
        bugs.some((bug) => bug.name === name),
        name,
      );
  });

  for (const [index, { name, options }] of bugs.entries()) {
    it(`finds that ${name}`, { skip: skipVariant(index, 5) }, async (t) => {
      const first = FOUND_LAST[name] ?? 1;
      const seeds = Array.from({ length: CANARY_RUNS }, (_, index) => index + 1);
      for (const each of [first, ...seeds.filter((seed) => seed !== first)]) {
        try {
          // Where a bug is not theirs, without the commands of our own: one more of them would be
          // another run.
          await simulate({ seed: each, steps: STEPS, extensions: false, policies: false, ...options });
        } catch (error) {
          t.diagnostic(`found at seed ${each}: ${findOf(error)}`);
          await assertClean(each, options);
          if (each !== first && each > TRIED_MAX) moved.push(`  "${name}": ${each},`);
          return;
        }
      }
      if (SKIP_UNTIL_NIGHT === false) assert.fail(`not found in ${CANARY_RUNS} seeds`);
      t.skip(`${SKIP_UNTIL_NIGHT} (a bug takes more than ${CANARY_RUNS} seeds: renew FOUND_LAST)`);
    });
  }
});
