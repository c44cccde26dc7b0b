// Bugs planted around the log, in drain mode and in recovery, which the simulation must find.

import type { OpenedBinlog } from "../../../src/binlog/open-binlog.ts";
import { JobState } from "../../../src/engine/jobs/job-table.ts";
import type { RestoredJob } from "../../../src/engine/jobs/new-job.ts";
import { RecordKind } from "../../../src/message/record.ts";
import { binlogBell, ControlWord } from "../../../src/message/topology.ts";
import type { Doorbell } from "../../../src/ring/doorbell.ts";
import { ControlWords, LentIds, LOG_WORDS, LogWord } from "../../../src/ring/shared-words.ts";
import { InProcessServer } from "../server/in-process-server.ts";
import { everyNth, type PlantedBug, planted, plantedIn } from "./planted-bug.ts";

class DeafDrain extends InProcessServer {
  override drain(): void {}
}

class ForgottenDrain extends InProcessServer {
  readonly #isForgotten = everyNth(200);

  override step(): boolean {
    if (this.#isForgotten()) new ControlWords(this.topology.control).clear(ControlWord.Draining);
    return super.step();
  }
}

class ReusedId extends InProcessServer {
  override firstJobId(opened: OpenedBinlog): number {
    return Math.max(1, super.firstJobId(opened) - 1);
  }
}

class SilentSync extends InProcessServer {
  override createBell(from: number, to: number): Doorbell {
    const bell = super.createBell(from, to);
    const rings = from === binlogBell(this.topology) && this.topology.threads[to]?.acceptors.length !== 0;
    if (rings) bell.ring = () => false;
    return bell;
  }
}

/** Has the log lose every `n`th record of a kind on its way from the ring. */
function losing(name: string, kind: number, n: number): PlantedBug {
  return planted(name, ({ storage }) => {
    if (storage === undefined) return;
    const append = storage.append.bind(storage);
    const isLost = everyNth(n);
    storage.append = (shard, number, bytes, start, length) => {
      if (bytes[start] !== kind || !isLost()) append(shard, number, bytes, start, length);
    };
  });
}

/** Has the log tell of records that have not come as far, or not even to the log. */
function early(name: string, word: LogWord): PlantedBug {
  return planted(name, ({ binlog, topology }) => {
    if (binlog === undefined) return;
    const words = new Int32Array(topology.binlog!.progress);
    const shift = (by: number): void => {
      for (let shard = 0; shard < topology.shards; shard++) words[shard * LOG_WORDS + word]! += by;
    };
    const publish = binlog.publishProgress.bind(binlog);
    shift(3);
    binlog.publishProgress = () => {
      shift(-3);
      const isWaitedFor = publish();
      shift(3);
      return isWaitedFor;
    };
  });
}

/** Changes what a restart makes of a job. */
function restoring(name: string, change: (job: RestoredJob) => Partial<RestoredJob>): PlantedBug {
  return planted(name, ({ shards }) => {
    for (const { engine } of shards) {
      const restore = engine.restore.bind(engine);
      engine.restore = (job, body) => restore({ ...job, ...change(job) }, body);
    }
  });
}

export const PLANTED_LOG_BUGS: readonly PlantedBug[] = [
  planted("the log of a thread that serves is not due when it waits for room, or for a sync", ({ loops }) => {
    for (const { log } of loops)
      if (log !== undefined) Object.defineProperty(log, "nextDueAtMs", { value: Number.POSITIVE_INFINITY });
  }),
  planted("a reply leaves before its record is written", ({ acceptors, log }) => {
    if (log?.repliesWaitFor === LogWord.Synced) return;
    for (const core of acceptors) core.log.isLogged = () => true;
  }),
  early("the number written is published before the write", LogWord.Written),
  early("the number synced is published too early", LogWord.Synced),
  planted("a shard counts on the log to ring for replies whose records were written before", ({ shards }) => {
    for (const port of shards.flatMap((core) => core.ports)) {
      const publish = port.publish.bind(port);
      port.publish = (shownRecord) => publish(shownRecord - 1000);
    }
  }),
  planted("a shard shows the log its records before it publishes their replies", ({ shards, records }) => {
    for (const [shard, core] of shards.entries()) {
      const step = core.step.bind(core);
      core.step = (nowMs) => {
        const taken = step(nowMs);
        records[shard]?.ring.publish();
        return taken;
      };
    }
  }),
  plantedIn("nobody is rung when records are durable", (settings) => new SilentSync(settings)),
  planted("a sync that failed is taken for one that worked", ({ log }) => {
    if (log === undefined) return;
    const { disk } = log;
    const sync = disk.sync.bind(disk);
    disk.sync = (handle) => {
      try {
        sync(handle);
      } catch {
        // nothing is said
      }
    };
  }),
  planted("a sync under -f MS comes too late", ({ storage }) => {
    if (storage === undefined) return;
    const nextDeadline = storage.nextDeadline.bind(storage);
    // A write that waits for room must be retried: the simulation's clock advances to that.
    storage.nextDeadline = () => (storage.room.waiting ? nextDeadline() : Number.POSITIVE_INFINITY);
  }),
  losing("the record of a release, kick or burial is lost", RecordKind.update, 8),
  losing("a deleted job comes back", RecordKind.delete, 8),
  losing("a piece of a long body is lost", RecordKind.piece, 8),
  planted("two records of a shard are swapped", ({ storage }) => {
    if (storage === undefined) return;
    const append = storage.append.bind(storage);
    const isSwapped = everyNth(7);
    let held: (() => void) | undefined;
    storage.append = (shard, number, bytes, start, length) => {
      if (held === undefined && isSwapped()) {
        const copy = bytes.slice(start, start + length);
        held = () => append(shard, number, copy, 0, length);
        return;
      }
      append(shard, number, bytes, start, length);
      held?.();
      held = undefined;
    };
  }),
  planted("a timeout makes no record", ({ records }) => {
    for (const log of records) {
      const updated = log.updated.bind(log);
      const isLost = everyNth(10);
      log.updated = (slot) => {
        if (!isLost()) updated(slot);
      };
    }
  }),
  restoring("a restart forgets the priority", () => ({ pri: 7 })),
  restoring("a delay starts anew with the server", ({ state, deadlineAtMs }) =>
    state === JobState.Delayed ? { deadlineAtMs: deadlineAtMs + 500 } : {},
  ),
  restoring("a buried job comes back ready", ({ state }) =>
    state === JobState.Buried ? { state: JobState.Ready } : {},
  ),
  plantedIn("a restart gives the last id once more", (settings) => new ReusedId(settings)),
  planted("a job is seen before its id is lent", ({ binlog, storage, topology }) => {
    if (binlog === undefined || storage === undefined) return;
    const beginIds = binlog.beginIds.bind(binlog);
    binlog.beginIds = (nextId) => {
      beginIds(nextId);
      new LentIds(new Int32Array(topology.control), ControlWord.IdsLent).publish(nextId + 2 ** 30);
    };
    storage.lendIsDue = () => false;
  }),
  planted("a put is taken although the log is full", ({ records }) => {
    for (const log of records) log.roomForPut = () => true;
  }),
  plantedIn("a drain is not heard", (settings) => new DeafDrain(settings)),
  plantedIn("a drain lets a put through", (settings) => new ForgottenDrain(settings)),
];
