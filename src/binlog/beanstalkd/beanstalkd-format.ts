// Encoding of the records in beanstalkd's log files, versions 7 and 5. Little endian, no checksums.
//
//   int32 version, then records:
//   name length (7: 4 bytes, 5: 8) · tube name · struct (7: 80 bytes, 5: 77) · body with CRLF
//
// A name length of 0 marks a short record, without name and body. A struct with id 0 ends the file.

import { assert } from "../../base/assert.ts";
import { type RecordFields, RecordState } from "../../message/record.ts";
import { FIXED_COUNTERS as COUNTERS, JobCounter } from "../../schema/job.ts";

export const BEANSTALKD_NAME_BYTES_MAX = 200;
const STRUCT_BYTES_7 = 80;

/** beanstalkd's states; a reserved job becomes ready. */
export const BeanstalkdState = { deleted: 0, ready: 1, reserved: 2, buried: 3, delayed: 4 } as const;

/**
 * Differences between versions: width of the name length, length of the struct, time units per
 * second.
 */
export interface BeanstalkdVersion {
  nameLengthBytes: number;
  structBytes: number;
  perSecond: number;
}

export function beanstalkdVersion(version: number): BeanstalkdVersion | undefined {
  if (version === 7) return { nameLengthBytes: 4, structBytes: STRUCT_BYTES_7, perSecond: 1e9 };
  if (version === 5) return { nameLengthBytes: 8, structBytes: 77, perSecond: 1e6 };
  return undefined;
}

/** Reads a 64-bit number that fits into a double. */
function readInt64(view: DataView, at: number): number {
  return view.getInt32(at + 4, true) * 0x1_0000_0000 + view.getUint32(at, true);
}

/** Fills `fields`, except the state, from the struct at `at`, and returns beanstalkd's state. */
export function decodeStruct(
  view: DataView,
  at: number,
  version: BeanstalkdVersion,
  fields: RecordFields,
): number {
  const { perSecond } = version;
  assert(at + version.structBytes <= view.byteLength, "the struct of a job lies in its file");
  // Both versions are exact to the microsecond. A double holds microseconds since the epoch, but
  // not nanoseconds.
  const perMicrosecond = BigInt(perSecond / 1e6);
  const timeMs = (from: number) => Number(view.getBigInt64(from, true) / perMicrosecond) / 1000;
  fields.id = readInt64(view, at);
  fields.pri = view.getUint32(at + 8, true);
  fields.delaySeconds = Math.floor(readInt64(view, at + 16) / perSecond) >>> 0;
  fields.ttrSeconds = Math.floor(readInt64(view, at + 24) / perSecond) >>> 0;
  fields.createdAtMs = timeMs(at + 40);
  fields.deadlineAtMs = timeMs(at + 48);
  for (let k = 0; k < COUNTERS; k++) fields.counters[k] = view.getUint32(at + 56 + 4 * k, true);
  return view.getUint8(at + 76);
}

/** Returns the length of a full version 7 record; `bodyBytes` excludes CRLF. */
export function beanstalkdRecordBytes(tubeBytes: number, bodyBytes: number): number {
  assert(tubeBytes > 0 && tubeBytes <= BEANSTALKD_NAME_BYTES_MAX, "beanstalkd can read the name of a tube");
  return 4 + tubeBytes + STRUCT_BYTES_7 + bodyBytes + 2;
}

/** Writes a full record of version 7 and returns its length. */
export function encodeBeanstalkdRecord(
  to: Uint8Array,
  fields: RecordFields,
  tube: Uint8Array,
  body: Uint8Array,
): number {
  assert(to.length >= beanstalkdRecordBytes(tube.length, body.length), "a record has room for its job");
  const view = new DataView(to.buffer, to.byteOffset, to.length);
  const nanoseconds = (at: number, ms: number) =>
    view.setBigInt64(at, BigInt(Math.round(ms * 1000)) * 1000n, true);
  view.setInt32(0, tube.length, true);
  to.set(tube, 4);
  const at = 4 + tube.length;
  const state =
    fields.state === RecordState.buried
      ? BeanstalkdState.buried
      : fields.state === RecordState.delayed
        ? BeanstalkdState.delayed
        : BeanstalkdState.ready;
  to.fill(0, at, at + STRUCT_BYTES_7);
  view.setBigUint64(at, BigInt(fields.id), true);
  view.setUint32(at + 8, fields.pri, true);
  nanoseconds(at + 16, fields.delaySeconds * 1000);
  nanoseconds(at + 24, fields.ttrSeconds * 1000);
  view.setInt32(at + 32, body.length + 2, true);
  nanoseconds(at + 40, fields.createdAtMs);
  nanoseconds(at + 48, fields.deadlineAtMs);
  for (let k = 0; k < COUNTERS; k++) {
    const count = fields.counters[k]!;
    // beanstalkd adds one burial when it reads a buried job.
    const isCounted = k === JobCounter.buries && fields.state === RecordState.buried && count > 0;
    view.setUint32(at + 56 + 4 * k, isCounted ? count - 1 : count, true);
  }
  view.setUint8(at + 76, state);
  const bodyAt = at + STRUCT_BYTES_7;
  to.set(body, bodyAt);
  to[bodyAt + body.length] = 13;
  to[bodyAt + body.length + 1] = 10;
  return bodyAt + body.length + 2;
}
