// The columns of jobs that belong to batches or wait for them. The first such job of a page creates
// a block for the whole page; other pages pay nothing.

export class JobFlows {
  /** Number of the batch of which the job is a member, or was one when it died; 0 for none. */
  readonly batch: Float64Array;
  /** Number of the batch that the job waits for; 0 for none. */
  readonly after: Float64Array;
  /** FlowFlags. */
  readonly flags: Uint8Array;

  /** Throws RangeError when memory is exhausted. */
  constructor(rows: number) {
    const buffer = new ArrayBuffer(rows * 17);
    this.batch = new Float64Array(buffer, 0, rows);
    this.after = new Float64Array(buffer, rows * 8, rows);
    this.flags = new Uint8Array(buffer, rows * 16, rows);
  }

  clear(row: number): void {
    this.batch[row] = 0;
    this.after[row] = 0;
    this.flags[row] = 0;
  }
}

export const FlowFlag = {
  /** The member has died: it counts as failed, whatever becomes of it. */
  Ended: 1,
  /** The job waits for the end of its batch, whatever the outcome. */
  Any: 2,
  /** Its batch was cancelled while a worker had the member, so no sweep removes it. */
  Spared: 4,
} as const;
