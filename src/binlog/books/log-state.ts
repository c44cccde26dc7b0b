// Initial state of a log in use: its books, and the position of the next record.

import { assert } from "../../base/assert.ts";
import { RecordIndex } from "./record-index.ts";
import { type Segment, SegmentTable } from "./segment-table.ts";

/** The result of recovery, or the state of an empty directory. */
export interface LogState {
  table: SegmentTable;
  index: RecordIndex;
  /** The last sequence number in the log. */
  lastSequence: number;
  /** The oldest segment that counts. */
  oldest: number;
  /** The number of the first segment to create if the table is empty. */
  first: number;
  /** At most two segments of the table without records; the first of them is written next. */
  empty: Segment[];
}

/**
 * Returns a log without records, whose first segment has the number `first`. If it follows another
 * log, `oldest` is that log's oldest segment: all of it counts until a DROP in the new log is
 * durable.
 */
export function emptyLog(first = 1, lastSequence = 0, maxId = 0, oldest = first): LogState {
  assert(oldest >= 1 && oldest <= first, "the first segment of a log counts");
  assert(lastSequence >= 0 && maxId >= 0, "sequences and ids go up from 0");
  const table = new SegmentTable();
  const index = new RecordIndex(table);
  index.maxId = maxId;
  return { table, index, lastSequence, oldest, first, empty: [] };
}
