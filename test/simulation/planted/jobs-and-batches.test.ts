// Tests that the simulation finds planted bugs of what commands do to jobs, batches and schedules.

import { describe, it } from "node:test";
import { plantedTests } from "./canary.ts";
import { PLANTED_BATCH_BUGS } from "./planted-batch-bugs.ts";
import { PLANTED_CANCEL_BUGS } from "./planted-cancel-bugs.ts";
import { PLANTED_FLOW_BUGS } from "./planted-flow-bugs.ts";
import { PLANTED_JOB_BUGS } from "./planted-job-bugs.ts";
import { PLANTED_JOB_MOVE_BUGS } from "./planted-job-move-bugs.ts";
import { PLANTED_POLICY_BUGS } from "./planted-policy-bugs.ts";
import { PLANTED_WEIGHT_BUGS } from "./planted-weight-bugs.ts";

/** Seeds that last found the bugs that the first seed misses: they come first. */
const FOUND_LAST: Readonly<Record<string, number>> = {
  "a batch of one group goes on into another": 16,
  "a batch of one group goes on into another tube": 6,
  "a batch of one group over several shards goes on into another tube": 4,
  "a batch of one shard goes on behind a lost job": 4,
  "a batch over several shards has a lost job among others": 4,
  "a batch over several shards is not in the order of priorities": 9,
  "an abort has the number of the next batch": 5,
  "an abort ends the wait that comes next": 5,
  "an abort is answered although a job has just come": 15,
  "a composed reply waits for the record of one shard only": 8,
  "a put between count and wait does not fill a batch": 13,
  "a batch that has its jobs holds up the others": 14,
  "a first job does not begin the linger": 9,
  "a touch of all stops before the last": 4,
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
  "buried jobs come in another order": 2,
  "a job that moves forgets its unique key": 13,
  "a key stays behind when its job has gone to another shard": 13,
  "a job comes to a tube that is full": 13,
  "a job that is not taken is lost": 13,
  "a job that moves forgets when it expires": 4,
  "a job that its holder hands on to another shard is no release": 2,
  "a dead job does not leave for the dead-letter tube of another shard": 4,
  "a dead job is refused by a tube that is full": 55,
  "a dead job lives again where dead ones go": 4,
  "a tube that has room for a byte takes any body": 7,
  "a list of all jobs ends where all of its shards have rested": 2,
  "a job on its way to another shard is not listed": 330,
  "the attributes of a job stay in the arena": 3,
  "attempts are not reset at a kick": 3,
  "a back-off is not spread": 4,
  "a full tube takes one job more": 7,
  "a group's turn is forgotten with its last job": 4,
  "a group at its limit goes on": 16,
  "a limit that is taken away serves nobody": 44,
  "a rate is ignored": 12,
  "nobody who waits is served when there is a token again": 9,
  "a token comes some milliseconds late": 3,
  "a bucket keeps twice as many tokens as it should": 12,
  "a job takes one token, whatever it costs": 21,
  "a job that a put replaces costs what it did": 47,
  "a turn of a group counts jobs, not what they cost": 52,
  "the rate of a group is ignored": 33,
  "a group stays out of tokens until it changes": 27,
  "SET is said before tubes have it": 3,
  "a put that is to debounce a job leaves it as it is": 14,
  "a job that update-job sends to another shard keeps its priority": 18,
  "a put that replaces a job that waits for a batch makes it ready": 139,
  "a tick's job comes into a tube that is full": 14,
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
  "a job that a put replaces keeps its priority": 3,
  "a batch over several shards is not in the order of turns": 13,
  "ticks come although the server drains": 3,
  "what a worker holds at a cancel is spared by the pass only": 44,
  "what a worker holds at a cancel is spared unlogged": 44,
  "a job that comes back does not get its key": 14,
  "a cancelled job stays where its holder buries it": 6,
  "another time to live saves a cancelled job": 5,
  "a cancelled job is not logged as such": 7,
  "a second reason replaces the first": 12,
  "a job that is given again shows the progress of the last worker": 6,
};

const DEATHS = { often: { setTube: 3, byId: 5, release: 4, moveJobs: 0.1, reserve: 2 } };
const HANDS_ON = { often: { updateJob: 8, setTube: 3, reserve: 1.5, moveJobs: 0.1 } };
const IN_GROUPS = { often: { putInTube: 3, reserveBatch: 3 } };
/** Bugs that occur too seldom unless these acts and commands are drawn so many times as often. */
const DRAWN = {
  "a batch of one group goes on into another": IN_GROUPS,
  "a dead job does not leave for the dead-letter tube of another shard": DEATHS,
  "a dead job is refused by a tube that is full": DEATHS,
  "a dead job lives again where dead ones go": DEATHS,
  "a job that its holder hands on to another shard has lost an attempt": HANDS_ON,
  "a job that its holder hands on, and that is refused, is nobody's": HANDS_ON,
  "a list of all jobs ends where all of its shards have rested": { often: { listAll: 15 } },
  "buried jobs come in another order": { often: { bury: 6, byId: 3 } },
  "a member that expires and is buried is still open": { often: { setTube: 2 } },
  "a job that comes back does not get its key": {
    often: { kickJob: 10, kick: 4, time: 0.3, setTube: 2, byId: 3, release: 3, reserve: 2, send: 2 },
  },
  "a group's turn is forgotten with its last job": { often: { putInTube: 2, setTube: 0.5 } },
  "a job that a put replaces keeps its priority": { often: { putInTube: 3 } },
};

const TESTS = plantedTests(
  [
    ...PLANTED_JOB_BUGS,
    ...PLANTED_JOB_MOVE_BUGS,
    ...PLANTED_BATCH_BUGS,
    ...PLANTED_POLICY_BUGS,
    ...PLANTED_WEIGHT_BUGS,
    ...PLANTED_FLOW_BUGS,
    ...PLANTED_CANCEL_BUGS,
  ],
  FOUND_LAST,
  DRAWN,
);

describe("simulation with a planted bug of jobs and batches", () => {
  for (const { name, skip, run } of TESTS) it(name, { skip }, run);
});
