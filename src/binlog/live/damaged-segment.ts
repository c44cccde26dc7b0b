// Rewrites a sealed segment in which not everything can be read: copies what can, writes settings
// and batches from the books, and has the shards record the other jobs again, from memory.

import { assert } from "../../base/assert.ts";
import type { Kept, RecordIndex, Segment } from "../segments/books.ts";
import type { DamagedPart, LogWriter, Restater } from "./log-writer.ts";
import { batchRecord, settingRecord, tallyRecord } from "./whole-job.ts";

type KeptJob = Kept & { kind: "job" };

interface DamagedSegmentOptions {
  readonly segment: Segment;
  readonly index: RecordIndex;
  readonly tail: LogWriter;
  readonly restater: Restater;
  /** Copies a record; returns false if it can't be read. */
  readonly copy: (kept: KeptJob) => boolean;
}

/** Time until the next look whether the shards have answered. */
const ANSWER_MS = 5;
/** A job may be on its way to another shard, or the log may be full: then it is asked for again. */
const AGAIN_MS_MAX = 60_000;
/** Maximum number of ids in a report. */
const REPORTED_MAX = 16;

export class DamagedSegment {
  readonly #options: DamagedSegmentOptions;
  #walk: Generator<Kept | undefined> | undefined;
  #parts: DamagedPart[] = [];
  #againMs = ANSWER_MS;
  readonly #jobs = new Set<number>();

  constructor(options: DamagedSegmentOptions) {
    this.#options = options;
  }

  get segment(): Segment {
    return this.#options.segment;
  }

  /** The jobs that were recorded again. */
  get report(): string {
    const ids = [...this.#jobs];
    if (ids.length === 0) return "no job was in the damaged part";
    const more = ids.length > REPORTED_MAX ? ` and ${ids.length - REPORTED_MAX} more` : "";
    return `from memory: jobs ${ids.slice(0, REPORTED_MAX).join(", ")}${more}`;
  }

  /** Does one slice. Returns after how many ms the next one may follow. */
  step(late: () => boolean): number {
    const { restater, index, segment } = this.#options;
    if (!restater.isAnswered) return ANSWER_MS;
    this.#walk ??= index.keptIn(segment.number);
    for (;;) {
      if (this.#parts.length === restater.partsMax) return this.#ask();
      const { done, value } = this.#walk.next();
      if (done === true && this.#parts.length > 0) return this.#ask();
      if (done === true) {
        this.#walk = undefined;
        this.#againMs = Math.min(AGAIN_MS_MAX, 2 * this.#againMs);
        return this.#againMs;
      }
      if (value !== undefined) this.#keep(value);
      if (late()) return 0;
    }
  }

  #keep(kept: Kept): void {
    const { tail, copy } = this.#options;
    if (kept.kind === "job") {
      if (copy(kept)) return;
      this.#parts.push({ id: kept.id, from: kept.from, bytes: kept.bytes });
      this.#jobs.add(kept.id);
      return;
    }
    const record =
      kept.kind === "setting"
        ? settingRecord(kept.pattern, kept.text)
        : kept.kind === "batch"
          ? batchRecord(kept.facts)
          : tallyRecord(kept.tally);
    tail.migrate(record, 0, record.length);
  }

  #ask(): number {
    const { restater } = this.#options;
    assert(this.#parts.length <= restater.partsMax, "a request has room for its parts");
    restater.ask(this.#parts);
    this.#parts = [];
    return ANSWER_MS;
  }
}
