// Notes on jobs that sessions hold: progress and a text from the worker, and the reason of a
// cancellation.
//
// A job with any of these has a cell in the body arena, whose handle is in a column that only pages
// with such a job have. Without memory, or beyond --max-memory, progress and note go unrecorded: no
// worker loses its job for them. The log has only the reason.

import { assert } from "../../base/assert.ts";
import { Attribute, type AttributeWriter } from "../../protocol/job-attribute.ts";
import { OPTION_VALUE_BYTES_MAX } from "../../protocol/option-rows.ts";
import { EMPTY_BODY } from "../jobs/body-arena.ts";
import { type JobExtras, rowOf } from "../jobs/job-table.ts";
import type { JobAttributes } from "../jobs/new-job.ts";
import type { ShardState } from "../state/shard-state.ts";

interface JobNote {
  /** Percent, or undefined. */
  readonly progress: number | undefined;
  readonly note: Uint8Array;
  /** Undefined if the job was not cancelled. */
  readonly cancelled: Uint8Array | undefined;
}

// A cell: the progress, the lengths of note and reason, then both.
const HEAD_BYTES = 3;
const NO_PROGRESS = 255;
const NO_BYTES = new Uint8Array(0);
const NOTHING: JobNote = { progress: undefined, note: NO_BYTES, cancelled: undefined };

export class JobNotes {
  readonly #shard: ShardState;
  readonly #cell = new Uint8Array(HEAD_BYTES + 2 * OPTION_VALUE_BYTES_MAX);

  constructor(shard: ShardState) {
    this.#shard = shard;
  }

  /** Returns what is said of a job. */
  of(slot: number): JobNote {
    const { extras } = this.#shard.jobs.pageOf(slot);
    const isCancelled = extras?.isCancelled(rowOf(slot)) === true;
    const handle = extras?.notes?.[rowOf(slot)] ?? EMPTY_BODY;
    // A restart, and a move to another shard, keep that a job was cancelled, but not why.
    if (handle === EMPTY_BODY) return isCancelled ? { ...NOTHING, cancelled: NO_BYTES } : NOTHING;
    const cell = this.#cell;
    this.#shard.bodies.read(handle, 0, cell, 0, HEAD_BYTES);
    const [progress, noteBytes, reasonBytes] = [cell[0]!, cell[1]!, cell[2]!];
    const end = HEAD_BYTES + noteBytes + reasonBytes;
    assert(end <= cell.length, "what is said of a job is of bounded size");
    this.#shard.bodies.read(handle, HEAD_BYTES, cell, HEAD_BYTES, noteBytes + reasonBytes);
    return {
      progress: progress === NO_PROGRESS ? undefined : progress,
      note: cell.slice(HEAD_BYTES, HEAD_BYTES + noteBytes),
      cancelled: isCancelled ? cell.slice(HEAD_BYTES + noteBytes, end) : undefined,
    };
  }

  /** Stores the progress and the note of a job, as far as they are given and there is memory. */
  set(slot: number, progress: number | undefined, note: Uint8Array | undefined): void {
    if ((progress === undefined && note === undefined) || !this.#shard.bodies.limit.allows) return;
    const before = this.of(slot);
    try {
      this.#store(slot, {
        progress: progress ?? before.progress,
        note: note ?? before.note,
        cancelled: before.cancelled,
      });
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
  }

  /** Stores why a job is cancelled. Throws RangeError when memory is exhausted. */
  setReason(slot: number, reason: Uint8Array): void {
    this.#store(slot, { ...this.of(slot), cancelled: reason });
  }

  #store(slot: number, { progress = NO_PROGRESS, note, cancelled = NO_BYTES }: JobNote): void {
    const { bodies, jobs } = this.#shard;
    const row = rowOf(slot);
    const cell = this.#cell;
    const length = HEAD_BYTES + note.length + cancelled.length;
    assert(length <= cell.length, "what is said of a job is of bounded size");
    cell.set([progress, note.length, cancelled.length]);
    cell.set(note, HEAD_BYTES);
    cell.set(cancelled, HEAD_BYTES + note.length);
    const handles = jobs.makeNotes(jobs.pageOf(slot));
    const handle = bodies.allocate(length);
    bodies.write(handle, 0, cell, 0, length);
    bodies.free(handles[row]!);
    handles[row] = handle;
  }

  /** Forgets what is said of a job: it is given anew, or removed. */
  forget({ notes }: JobExtras, row: number): void {
    if (notes === undefined || notes[row] === EMPTY_BODY) return;
    this.#shard.bodies.free(notes[row]!);
    notes[row] = EMPTY_BODY;
  }

  /** Writes what the worker says, for another shard. */
  writeSaid(slot: number, writer: AttributeWriter): void {
    const { progress, note } = this.of(slot);
    if (progress === undefined && note.length === 0) return;
    writer.text(Attribute.Said, Uint8Array.of(progress ?? NO_PROGRESS, ...note), 0, 1 + note.length);
  }

  /** Takes over what another shard has written. */
  restore(slot: number, { said }: Pick<JobAttributes, "said">): void {
    const [progress] = said;
    if (progress !== undefined)
      this.set(slot, progress === NO_PROGRESS ? undefined : progress, said.subarray(1));
  }

  /** Writes the attribute of a cancelled job. */
  write(slot: number, writer: AttributeWriter): void {
    const { cancelled } = this.of(slot);
    if (cancelled !== undefined) writer.text(Attribute.Cancelled, cancelled, 0, cancelled.length);
  }
}
