// The fields that acceptors and shards exchange for a connection that picks its jobs by weight: see
// engine/waiting/tube-turns.ts.
//
// Requests that make or end a choice have the floor in `timeoutMs`, and Take the place of the
// second-best candidate in `atMs`. In a Candidate, Absent or Candidates, two float64 follow the
// soonest deadline: the floor of the shard, and the earliest turn of its tubes with a job. A
// Candidate then has its place in the order. In Candidates, the place of each job follows its
// entry.

import type { Request, Span } from "../protocol/request.ts";
import { CANDIDATE_BYTES } from "./response.ts";

/** Offsets in the payload of a Candidate, and where the list of Candidates begins. */
const FLOOR_AT = 8;
const EARLIEST_AT = 16;
const PLACE_AT = 24;
export const TURNS_LIST_AT = 24;
/** Bytes of a Candidate's payload, and of an entry of Candidates. */
export const TURNS_CANDIDATE_BYTES = 32;
export const TURNS_ENTRY_BYTES: number = CANDIDATE_BYTES + 8;

/** Collect, Take, CollectBatch, TakeBatch and WaitShared. */
export const FloorView = {
  fill(message: Request, floor: number): void {
    message.timeoutMs = floor;
  },
  floor: ({ timeoutMs }: Request): number => timeoutMs,
};

/** Take. */
export const PlaceView = {
  fill(message: Request, place: number): void {
    message.atMs = place;
  },
  place: ({ atMs }: Request): number => atMs,
};

/** The payload of an answer. */
export const TurnsView = {
  write(view: DataView, floor: number, earliest: number): void {
    view.setFloat64(FLOOR_AT, floor, true);
    view.setFloat64(EARLIEST_AT, earliest, true);
  },
  writePlace(view: DataView, place: number): void {
    view.setFloat64(PLACE_AT, place, true);
  },
  floor: (payload: Span): number => at(payload, FLOOR_AT),
  earliest: (payload: Span): number => at(payload, EARLIEST_AT),
  place: (payload: Span): number => at(payload, PLACE_AT),
  writeEntryPlace(view: DataView, entryAt: number, place: number): void {
    view.setFloat64(entryAt + CANDIDATE_BYTES, place, true);
  },
  entryPlace: (view: DataView, entryAt: number): number => view.getFloat64(entryAt + CANDIDATE_BYTES, true),
};

function at({ bytes, start }: Span, offset: number): number {
  return new DataView(bytes.buffer, bytes.byteOffset + start + offset).getFloat64(0, true);
}
