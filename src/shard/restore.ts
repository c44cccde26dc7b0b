// Brings the jobs that the log knew into a shard's engine, before it takes its first command.

import { latin1 } from "../base/bytes.ts";
import type { Engine } from "../engine/engine.ts";
import { JobState, PAGE_BITS, PAGE_MASK } from "../engine/job-table.ts";
import {
  bodyBytesOf,
  decodeFields,
  emptyRecordFields,
  RECORD_FIXED_BYTES,
  RecordState,
  tubeBytesOf,
} from "../message/record.ts";

interface Buried {
  burySequence: number;
  restore: () => void;
}

export class Restore {
  /** The highest burial seen. */
  burySequence = 0;
  readonly #engine: Engine;
  readonly #wallOffsetMs: number;
  readonly #nowMs: number;
  readonly #fields = emptyRecordFields();
  readonly #buried: Buried[] = [];
  readonly #onJob: (id: number) => number;

  /** `onJob` is told every id and returns the number of the job's log file. */
  constructor(engine: Engine, wallOffsetMs: number, nowMs: number, onJob: (id: number) => number) {
    this.#engine = engine;
    this.#wallOffsetMs = wallOffsetMs;
    this.#nowMs = nowMs;
    this.#onJob = onJob;
  }

  /** Takes the PUT records at `offsets` of `bytes`, each the final state of a job. */
  load(bytes: Uint8Array, offsets: Uint32Array): void {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    for (const offset of offsets) this.#loadOne(view, bytes, offset);
  }

  /** All jobs have come: buries the buried ones in the order of their burial. */
  finish(): void {
    this.#buried.sort((a, b) => a.burySequence - b.burySequence);
    for (const job of this.#buried) job.restore();
  }

  #loadOne(view: DataView, bytes: Uint8Array, offset: number): void {
    const engine = this.#engine;
    const fields = this.#fields;
    decodeFields(view, offset, fields);
    const tubeBytes = tubeBytesOf(view, offset);
    const bodyBytes = bodyBytesOf(view, offset);
    const tubeAt = offset + RECORD_FIXED_BYTES;
    const tube = latin1(bytes, tubeAt, tubeAt + tubeBytes);
    const body = engine.bodies.allocate(bodyBytes);
    engine.bodies.write(body, 0, bytes, tubeAt + tubeBytes, bodyBytes);
    const { id, pri, delaySeconds, ttrSeconds, burySequence } = fields;
    const { reserves, timeouts, releases, buries, kicks } = fields;
    const createdAtMs = fields.createdAtMs - this.#wallOffsetMs;
    const deadlineAtMs = fields.deadlineAtMs - this.#wallOffsetMs;
    const state =
      fields.state === RecordState.buried
        ? JobState.Buried
        : fields.state === RecordState.delayed && deadlineAtMs > this.#nowMs
          ? JobState.Delayed
          : JobState.Ready;
    const restore = (): void => {
      const slot = engine.restore(
        tube,
        id,
        state,
        pri,
        delaySeconds,
        ttrSeconds,
        createdAtMs,
        deadlineAtMs,
        body,
        bodyBytes,
      );
      const page = engine.jobs.pages[slot >>> PAGE_BITS]!;
      const row = slot & PAGE_MASK;
      page.reserves[row] = reserves;
      page.timeouts[row] = timeouts;
      page.releases[row] = releases;
      page.buries[row] = buries;
      page.kicks[row] = kicks;
      page.file[row] = this.#onJob(id);
    };
    if (state !== JobState.Buried) {
      restore();
      return;
    }
    this.#burySequence(burySequence);
    this.#buried.push({ burySequence, restore });
  }

  #burySequence(sequence: number): void {
    if (sequence > this.burySequence) this.burySequence = sequence;
  }
}
