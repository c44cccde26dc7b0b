// The whole engine of a shard without rings or threads: jobs through their life while others exist.

import { Engine, Outcome } from "../../src/engine/engine.ts";
import { BodyArena } from "../../src/engine/jobs/body-arena.ts";
import { rowOf } from "../../src/engine/jobs/job-table.ts";
import { JobAttributes } from "../../src/engine/jobs/new-job.ts";
import type { ClientEffects } from "../../src/engine/state/effects.ts";
import { type MicroBenchmark, sumBelow } from "./micro-benchmark.ts";

const BODY_BYTES = 64;
const TTR_SECONDS = 60;

/** No session waits here, so no unrequested effect may come. */
const NO_EFFECTS: ClientEffects = {
  reserved: unasked,
  timedOut: unasked,
  deadlineSoon: unasked,
  waitDue: unasked,
  claim: () => false,
  stillWaiting: () => false,
  nextTubeSequence: () => 1,
};

function unasked(): never {
  throw new Error("an effect that nobody asked for");
}

const KEY_BYTES = 12;

/** The attributes of puts that each have a key of their own, as a shard makes them of options. */
class UniqueKeys {
  readonly #attributes = new JobAttributes();
  readonly #key = Buffer.alloc(KEY_BYTES);

  of(id: number): JobAttributes {
    let rest = id;
    for (let at = KEY_BYTES - 1; at >= 0; at--) {
      this.#key[at] = 97 + (rest & 15);
      rest >>>= 4;
    }
    this.#attributes.clear().setKey(this.#key, 0, KEY_BYTES, false);
    return this.#attributes;
  }
}

/** Puts, reserves and deletes a job; `standing` jobs of a worse priority are there all the time. */
function cycle(name: string, standing: number, isUnique = false): MicroBenchmark {
  return {
    subject: "engine",
    name,
    operations: 100_000,
    smallOperations: 1000,
    // The numbers of the jobs, in the order of their puts.
    expected: sumBelow,
    open(operations) {
      const arena = new BodyArena();
      const engine = new Engine({ effects: NO_EFFECTS, arena, ownsDefaultTube: true });
      const session = engine.session(0);
      engine.use(session, "default");
      engine.watch(session, "default");
      const body = Buffer.alloc(BODY_BYTES, "x");
      const job = {
        id: 0,
        pri: 0,
        delaySeconds: 0,
        delayMillis: 0,
        ttrSeconds: TTR_SECONDS,
        bodyBytes: BODY_BYTES,
        atMs: 0,
      };
      let nextId = 1;
      let nowMs = 0;
      const keys = isUnique ? new UniqueKeys() : undefined;
      const put = (pri: number): void => {
        const handle = arena.allocate(BODY_BYTES);
        arena.write(handle, 0, body, 0, BODY_BYTES);
        job.id = nextId++;
        job.pri = pri;
        job.atMs = nowMs;
        const outcome = engine.put(session, job, handle, nowMs, "", keys?.of(job.id));
        if (outcome !== Outcome.Done) throw new Error("the job was not put");
      };
      for (let i = 0; i < standing; i++) put(1);
      return {
        run() {
          const firstId = nextId;
          let sum = 0;
          for (let i = 0; i < operations; i++) {
            nowMs += 0.01;
            put(0);
            const slot = engine.reserve(session, 0, nowMs);
            if (slot < 0) throw new Error("there was no job to reserve");
            const id = engine.jobs.pageOf(slot).id[rowOf(slot)]!;
            if (engine.delete(session, id, nowMs) !== Outcome.Done)
              throw new Error("the job was not deleted");
            sum += id - firstId;
          }
          return sum;
        },
      };
    },
  };
}

export const ENGINE: readonly MicroBenchmark[] = [
  cycle("put, reserve, delete", 0),
  cycle("put, reserve, delete, with 100 k jobs standing by", 100_000),
  cycle("put, reserve, delete, each with a unique key", 0, true),
  cycle("the same, with 100 k such jobs standing by", 100_000, true),
];
