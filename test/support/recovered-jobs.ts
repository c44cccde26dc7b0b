// Jobs of a recovered batch one by one, to compare with what was promised.

import { type RecoveredBatch, wholeJobs } from "../../src/binlog/recovery/recovered-jobs.ts";
import type { RecordFields } from "../../src/message/record.ts";

interface RecoveredJob {
  /** The shard that it is for. */
  readonly shard: number;
  /** Reused for the next job. */
  readonly fields: RecordFields;
  readonly tube: string;
  /** Attributes in hex, padding included. */
  readonly attributes: string;
  readonly body: Buffer;
}

export function* jobsOfBatch({ bytes, jobs }: RecoveredBatch): Generator<RecoveredJob> {
  for (const [shard, offsets] of jobs.entries()) {
    for (const { fields, tube, attributes, body } of wholeJobs([{ bytes, jobs: [offsets] }]))
      yield {
        shard,
        fields,
        tube: asBuffer(tube).toString("latin1"),
        attributes: asBuffer(attributes).toString("hex"),
        body: asBuffer(body),
      };
  }
}

const asBuffer = ({ buffer, byteOffset, length }: Uint8Array<SharedArrayBuffer>): Buffer =>
  Buffer.from(buffer, byteOffset, length);
