import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Memory } from "../../../src/base/bytes.ts";
import {
  type ChainPlace,
  encodeLogBatchHeader,
  LOG_BATCH_HEADER_BYTES,
  LogBatchKind,
  sealLogBatch,
} from "../../../src/message/log-batch.ts";
import { PrimaryCore } from "../../../src/replica/primary-core.ts";
import { readInDoubt } from "../../../src/replica/primary-node.ts";
import type { LogMessage } from "../../../src/replica/shared-log.ts";

const LEASE_MS = 3000;
const NODE = 7;
/** Message 1 is the LEAD with which it all begins. */
const LEAD: ChainPlace = { epoch: 1, n: 1, tag: 101 };

/** The successor of the batch at `place`, whose tag is 100 + n, with so many bytes behind it. */
function batchBehind(place: ChainPlace, kind: LogBatchKind = LogBatchKind.data, bodyBytes = 0): Uint8Array {
  const memory = Memory.ofSize(LOG_BATCH_HEADER_BYTES + bodyBytes);
  encodeLogBatchHeader(memory, 0, {
    kind,
    epoch: kind === LogBatchKind.lead ? place.epoch + 1 : place.epoch,
    segment: 1,
    n: place.n + 1,
    previousTag: place.tag,
    tag: 101 + place.n,
    sequence: place.n,
    idsLent: 0,
    frames: 0,
    bodyBytes,
    node: NODE,
    oldest: 1,
    unacknowledged: 0,
    message: 0,
  });
  sealLogBatch(memory, 0);
  return memory.bytes;
}

const ORIGIN: ChainPlace = { epoch: 0, n: 0, tag: 0 };
const LEAD_MESSAGE: LogMessage = { sequence: 1, bytes: batchBehind(ORIGIN, LogBatchKind.lead) };

function primary() {
  const sent: { bytes: Uint8Array; expectedLast: number; ticket: number }[] = [];
  const looks: number[] = [];
  const ends: string[] = [];
  const acknowledged: number[] = [];
  const core = new PrimaryCore({
    host: {
      append: (bytes, expectedLast, ticket) => void sent.push({ bytes, expectedLast, ticket }),
      look: (from) => void looks.push(from),
      acknowledged: ({ n }) => void acknowledged.push(n),
      purge() {},
      ended: (how) => void ends.push(how),
    },
    place: LEAD,
    sequence: 1,
    sentAtMs: 0,
    leaseMs: LEASE_MS,
    keepBytes: 0,
    firstSequences: new Map(),
  });
  const offer = (bytes: Uint8Array, nowMs: number): void => {
    core.offer(
      {
        n: 2,
        tag: 102,
        segment: 1,
        oldest: 1,
        idsLent: 0,
        bytes,
        numbers: new Float64Array(1),
      },
      nowMs,
    );
  };
  return { core, sent, looks, ends, acknowledged, offer };
}

describe("PrimaryCore", () => {
  it("may serve for a lease from when a batch was sent, if its append is acknowledged", () => {
    const { core, sent, acknowledged, offer } = primary();
    offer(batchBehind(LEAD), 1000);
    core.appended(sent[0]!.ticket, 2, 1900);
    assert.deepEqual(acknowledged, [2]);
    assert.equal(core.serveUntilMs, 1000 + LEASE_MS);
  });

  it("serves after a pause of its machine only by batches sent since", () => {
    const { core, sent, looks, acknowledged, offer } = primary();
    offer(batchBehind(LEAD), 1000);
    core.distrust(1500);
    assert.equal(core.serveUntilMs, 1500);
    core.appended(sent[0]!.ticket, 2, 1600);
    assert.deepEqual(looks, [1], "the shared log is asked for the leader");
    core.looked([LEAD_MESSAGE, { sequence: 2, bytes: batchBehind(LEAD) }], 2, 1700);
    assert.deepEqual([acknowledged, core.serveUntilMs], [[2], 1500], "it was sent before the pause");
    const third = { n: 3, tag: 103, segment: 1, oldest: 1, idsLent: 0, numbers: new Float64Array(1) };
    core.offer({ ...third, bytes: batchBehind({ epoch: 1, n: 2, tag: 102 }) }, 1800);
    core.appended(sent[1]!.ticket, 3, 1900);
    assert.equal(core.serveUntilMs, 1800 + LEASE_MS);
  });

  it("gains no time from a batch that was sent twice: a standby may have read the first", () => {
    const { core, sent, looks, acknowledged, offer } = primary();
    const bytes = batchBehind(LEAD);
    offer(bytes, 1000);
    core.doubt(1100);
    // A slow look: what was sent arrives behind the end that it has asked for.
    core.looked([LEAD_MESSAGE], 1, 3500);
    assert.equal(sent.length, 2, "it is sent again");
    core.failed(sent[1]!.ticket, 3600);
    assert.deepEqual(looks, [1, 1]);
    core.looked([LEAD_MESSAGE, { sequence: 2, bytes }], 2, 3700);
    assert.deepEqual(acknowledged, [2]);
    assert.equal(core.serveUntilMs, 1000 + LEASE_MS);
  });

  it("ends at the first messages that show another lead, without the rest", async () => {
    const { core, ends } = primary();
    const other = batchBehind(LEAD, LogBatchKind.lead, 128 * 1024);
    const log = {
      reads: 0,
      async *read(from: number, to: number) {
        let place: ChainPlace = LEAD;
        for (let sequence = from; sequence <= to; sequence++) {
          this.reads++;
          if (sequence === 1) yield LEAD_MESSAGE;
          else if (sequence === 2) {
            yield { sequence, bytes: other };
            place = { epoch: 2, n: 2, tag: 102 };
          } else {
            yield { sequence, bytes: batchBehind(place, LogBatchKind.data, 128 * 1024) };
            place = { epoch: 2, n: place.n + 1, tag: 101 + place.n };
          }
        }
      },
    };
    core.doubt(0);
    const messages = await readInDoubt(log, core, 1, 10_000);
    assert.ok(log.reads < 100, `${log.reads} of 10,000 messages were read`);
    core.looked(messages, 10_000, 0);
    assert.deepEqual(ends, ["lost-lead"]);
  });

  it("reads everything if foreign messages fill the log", async () => {
    const { core, ends } = primary();
    const log = {
      async *read(from: number, to: number) {
        for (let sequence = from; sequence <= to; sequence++)
          yield sequence === 1 ? LEAD_MESSAGE : { sequence, bytes: new Uint8Array(128 * 1024) };
      },
    };
    core.doubt(0);
    const messages = await readInDoubt(log, core, 1, 200);
    assert.equal(messages.length, 200);
    core.looked(messages, 200, 0);
    assert.deepEqual(ends, []);
  });
});
