// Records of the log: encoding, framing with a checksum, decoding.
import { crc32 } from "node:zlib";
import { copyBytes, Memory } from "../../src/base/bytes.ts";
import { FRAME_BYTES, recordChecksum, sealFrame } from "../../src/binlog/segments/segment-format.ts";
import {
  DELETE_BYTES,
  decodeFields,
  emptyRecordFields,
  encodeDelete,
  encodePutHead,
  encodeUpdate,
  putRecordBytes,
  RECORD_FIXED_BYTES,
  UPDATE_BYTES,
} from "../../src/message/record.ts";
import { type MicroBenchmark, sumBelow } from "./micro-benchmark.ts";

const TUBE = Buffer.from("emails");
const SALT = 12345;

/**
 * Encodes each record in place of the last one, frames it and, when the batch is full, starts a new
 * one.
 */
function framed(
  name: string,
  recordBytes: number,
  encode: (to: Memory, id: number) => number,
): MicroBenchmark {
  return {
    subject: "record",
    name,
    operations: 200_000,
    smallOperations: 2000,
    expected: (operations) => operations * (recordBytes + FRAME_BYTES),
    open(operations) {
      const from = Memory.ofSize(recordBytes);
      const batch = Memory.ofSize(1 << 18);
      return {
        run() {
          let bytes = 0;
          let at = 0;
          for (let id = 1; id <= operations; id++) {
            const length = encode(from, id);
            if (at + FRAME_BYTES + length > batch.bytes.length) at = 0;
            copyBytes(batch.bytes, at + FRAME_BYTES, from.bytes, 0, length);
            sealFrame(batch, at, length, SALT, id, 0);
            at += FRAME_BYTES + length;
            bytes += FRAME_BYTES + length;
          }
          return bytes;
        },
      };
    },
  };
}

function framedPut(bodyBytes: number): MicroBenchmark {
  const fields = { ...emptyRecordFields(), ttrSeconds: 60 };
  const body = Buffer.alloc(bodyBytes, "abcdefgh");
  const name = `put with a body of ${bodyBytes} B: encode and frame`;
  return framed(name, putRecordBytes(TUBE.length, bodyBytes), (to, id) => {
    fields.id = id;
    const bodyAt = encodePutHead(to, 0, fields, TUBE, bodyBytes);
    copyBytes(to.bytes, bodyAt, body, 0, bodyBytes);
    return bodyAt + bodyBytes;
  });
}

function framedUpdate(): MicroBenchmark {
  const fields = emptyRecordFields();
  return framed("update: encode and frame", UPDATE_BYTES, (to, id) => {
    fields.id = id;
    return encodeUpdate(to, 0, fields);
  });
}

const DECODE: MicroBenchmark = {
  subject: "record",
  name: "update: encode and decode",
  operations: 500_000,
  smallOperations: 1000,
  expected: sumBelow,
  open(operations) {
    const memory = Memory.ofSize(RECORD_FIXED_BYTES);
    const fields = emptyRecordFields();
    const decoded = emptyRecordFields();
    return {
      run() {
        let sum = 0;
        for (let id = 0; id < operations; id++) {
          fields.id = id;
          encodeUpdate(memory, 0, fields);
          decodeFields(memory.view, 0, decoded);
          sum += decoded.id;
        }
        return sum;
      },
    };
  },
};

function checksum(bytes: number, operations: number): MicroBenchmark {
  return {
    subject: "record",
    name: `checksum of ${bytes} B`,
    operations,
    smallOperations: 1000,
    // The same bytes each time; zlib's is a second implementation for the short ones.
    expected: (count) => count * crc32(patterned(bytes)),
    open(count) {
      const data = patterned(bytes);
      return {
        run() {
          let sum = 0;
          for (let i = 0; i < count; i++) sum += recordChecksum(data, 0, bytes, 0) >>> 0;
          return sum;
        },
      };
    },
  };
}

const patterned = (bytes: number): Buffer => Buffer.from(Uint8Array.from({ length: bytes }, (_, i) => i * 7));

export const RECORD: readonly MicroBenchmark[] = [
  framedPut(64),
  framedPut(1024),
  framedUpdate(),
  framed("delete: encode and frame", DELETE_BYTES, (to, id) => encodeDelete(to.view, 0, id)),
  DECODE,
  checksum(64, 500_000),
  checksum(4096, 100_000),
];
