// Messages between shards about the name of a schedule that one of them is about to set. An
// acceptor relays them (message/transfer.ts).
//
//   ClaimName   0  f64  number of the claim, greater than those of all claims begun before it
//               8  the name
//   YieldName   0  f64  id of the schedule of that name, or 0
//               8  f64  its next tick, or 0
//               16 its attributes (schedule-record.ts)
//   EndClaim    0  f64  version of the schedule that the claiming shard has set, or 0
//               8  the name
//
// The `transfer` of all three is the claiming shard's own number for the claim.

import { latin1 } from "../base/bytes.ts";
import type { Span } from "../protocol/request.ts";

export const CLAIM_HEADER_BYTES = 8;
export const YIELD_HEADER_BYTES = 16;
export const END_CLAIM_HEADER_BYTES = 8;

const viewOf = ({ bytes, start, end }: Span): DataView =>
  new DataView(bytes.buffer, bytes.byteOffset + start, end - start);

export const ClaimView = {
  claim: (body: Span): number => viewOf(body).getFloat64(0, true),
  name: ({ bytes, start, end }: Span): string => latin1(bytes, start + CLAIM_HEADER_BYTES, end),
};

export const YieldView = {
  id: (body: Span): number => viewOf(body).getFloat64(0, true),
  nextMs: (body: Span): number => viewOf(body).getFloat64(8, true),
};

export const EndClaimView = {
  version: (body: Span): number => viewOf(body).getFloat64(0, true),
  name: ({ bytes, start, end }: Span): string => latin1(bytes, start + END_CLAIM_HEADER_BYTES, end),
};
