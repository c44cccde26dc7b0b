// Changes to leased jobs by their workers. The shards decide, and outcomes are remembered for
// retries.

import type { LeaseChange, LeaseOutcome } from "../../message/control.ts";
import { REASON_BYTES_MAX } from "../../protocol/job-failure.ts";
import { OPTION_VALUE_BYTES_MAX } from "../../protocol/option-rows.ts";
import type { ControlClient } from "../link/control-client.ts";
import type { LeaseKey, LeaseTable } from "../state/lease-table.ts";

export interface LeaseParts {
  readonly leases: LeaseTable;
  readonly control: ControlClient;
}

/** Maximum bytes of a question without its changes, and of a change without its text. */
const QUESTION_BYTES = 64;
const CHANGE_BYTES = 128;

export interface NewChange {
  readonly act: LeaseChange["act"];
  readonly token: string;
  readonly pri?: number | undefined;
  readonly delay?: number | undefined;
  readonly reason?: string | undefined;
  readonly progress?: number | undefined;
  readonly note?: string | undefined;
}

/**
 * Applies changes to leases, each one independently and in request order per shard. Returns what
 * became of each.
 */
export async function changeLeases(
  parts: LeaseParts,
  owner: string,
  changes: readonly NewChange[],
): Promise<LeaseOutcome[]> {
  const { leases, control } = parts;
  const done = changes.map((): LeaseOutcome => false);
  const byShard = new Map<number, Asked[]>();
  const again: Promise<void>[] = [];
  for (const [index, change] of changes.entries()) {
    const { token, act } = change;
    const key = leases.read(token, owner);
    const before = key === undefined ? undefined : leases.finishedBy(key);
    if (key === undefined || key.shard >= control.shards || before !== undefined) {
      // A retry of the same change succeeds.
      done[index] = before === act;
      if (!done[index]) leases.ended++;
      continue;
    }
    const sooner = leases.whenFinishedBy(key, act);
    if (sooner !== undefined) {
      again.push(askAgain(parts, owner, change, sooner).then((isDone) => void (done[index] = isDone)));
      continue;
    }
    if (act !== "touch") leases.beginFinish(key, act);
    byShard.getOrInsertComputed(key.shard, () => []).push({ index, key });
  }
  await Promise.all([
    ...[...byShard].flatMap(([shard, group]) =>
      questionsOf(group, changes, control.questionBytesMax).map((part) =>
        askShard(parts, shard, part, changes, done),
      ),
    ),
    ...again,
  ]);
  return done;
}

/** Divides the changes for one shard into questions that are short enough. */
function questionsOf(group: readonly Asked[], changes: readonly NewChange[], bytesMax: number): Asked[][] {
  const questions: Asked[][] = [];
  let left = 0;
  for (const each of group) {
    const { reason, note } = changes[each.index]!;
    const textBytes =
      (reason === undefined ? 0 : REASON_BYTES_MAX) + (note === undefined ? 0 : OPTION_VALUE_BYTES_MAX);
    const bytes = CHANGE_BYTES + textBytes;
    left -= bytes;
    if (left < 0) {
      questions.push([]);
      left = bytesMax - QUESTION_BYTES - bytes;
    }
    questions.at(-1)!.push(each);
  }
  return questions;
}

async function askAgain(
  parts: LeaseParts,
  owner: string,
  change: NewChange,
  sooner: Promise<void>,
): Promise<LeaseOutcome> {
  await sooner;
  const [isDone] = await changeLeases(parts, owner, [change]);
  return isDone!;
}

/** Returns a text as UTF-8, cut to the length that a job keeps. */
function utf8(text: string, bytesMax: number): Uint8Array {
  const bytes = new Uint8Array(bytesMax);
  return bytes.subarray(0, new TextEncoder().encodeInto(text, bytes).written);
}

interface Asked {
  readonly index: number;
  readonly key: LeaseKey;
}

async function askShard(
  { leases, control }: LeaseParts,
  shard: number,
  group: readonly Asked[],
  changes: readonly NewChange[],
  done: LeaseOutcome[],
): Promise<void> {
  const asked = group.map(({ index, key }): LeaseChange => {
    const { act, pri, delay, reason, progress, note } = changes[index]!;
    const { id, reserves } = key;
    // Omitted values need not be packed.
    const change = {
      ...(reason === undefined ? {} : { reason: utf8(reason, REASON_BYTES_MAX) }),
      ...(progress === undefined ? {} : { progress }),
      ...(note === undefined ? {} : { note: utf8(note, OPTION_VALUE_BYTES_MAX) }),
    };
    if (pri === undefined && delay === undefined) return { act, id, reserves, ...change };
    return { act, id, reserves, pri, delay, ...change };
  });
  try {
    const answers = await control.ask(shard, "leases", { changes: asked });
    for (const [at, { index, key }] of group.entries()) {
      const { act } = changes[index]!;
      done[index] = answers[at]!;
      if (answers[at] === false) {
        leases.ended++;
        leases.forget(key);
      } else if (act !== "touch") leases.finish(key, act);
    }
  } finally {
    for (const { index, key } of group) leases.endFinish(key, changes[index]!.act);
  }
}

// Returns leased jobs that will not reach their clients: they become ready again, as if a
// connection had closed.
//
// A give-back is never refused, because nothing would repeat it. Each shard has one such question
// in progress, with as many jobs as fit; jobs that arrive in the meantime go with the next one. A
// lease counts until its shard has answered. So the list of leases agrees with the shard's count,
// and the limit of leases also bounds the queue here.

/** Maximum of jobs per question, which keeps a shard's slice short. */
const JOBS_MAX = 200;
const JOB_BYTES = 32;

export class GiveBacks {
  readonly #leases: LeaseTable;
  readonly #control: ControlClient;
  readonly #jobsMax: number;
  /** Jobs that wait for the answer to an earlier question, by shard. */
  readonly #waiting: LeaseKey[][];
  readonly #isAsking: boolean[];

  constructor(leases: LeaseTable, control: ControlClient) {
    this.#leases = leases;
    this.#control = control;
    const fitting = Math.floor((control.questionBytesMax - QUESTION_BYTES) / JOB_BYTES);
    this.#jobsMax = Math.max(1, Math.min(JOBS_MAX, fitting));
    this.#waiting = Array.from({ length: control.shards }, () => []);
    this.#isAsking = this.#waiting.map(() => false);
  }

  add(keys: readonly LeaseKey[]): void {
    this.#leases.abandoned += keys.length;
    for (const key of keys) this.#waiting[key.shard]!.push(key);
    for (const shard of this.#waiting.keys()) this.#askNext(shard);
  }

  #askNext(shard: number): void {
    const waiting = this.#waiting[shard]!;
    if (this.#isAsking[shard] || waiting.length === 0) return;
    this.#isAsking[shard] = true;
    const asked = waiting.splice(0, this.#jobsMax);
    const jobs = asked.map(({ id, reserves }) => ({ id, reserves }));
    void this.#control.ask(shard, "give-back", { jobs }).then(() => {
      for (const key of asked) this.#leases.forget(key);
      this.#isAsking[shard] = false;
      this.#askNext(shard);
    });
  }
}
