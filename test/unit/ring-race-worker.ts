// One end of a ring in a thread of its own, for ring-race.test.ts: sends or takes numbered messages, and sleeps as threads do.

import { parentPort, workerData } from "node:worker_threads";
import { Doorbell, DoorbellOwner } from "../../src/ring/doorbell.ts";
import { EMPTY, RingReader } from "../../src/ring/ring-reader.ts";
import { FULL, RingWriter } from "../../src/ring/ring-writer.ts";
import { SeededRandom } from "../support/seeded-random.ts";

export interface RaceData {
  role: "writer" | "reader";
  ring: SharedArrayBuffer;
  doorbells: SharedArrayBuffer;
  messages: number;
  seed: number;
}

/** What one end saw. */
export interface RaceOutcome {
  role: "writer" | "reader";
  done: number;
  /** Messages with another number, length or content than expected. */
  wrong: number;
  /** Sleeps that a ring ended, or that ended before they began. */
  wakes: number;
  /** Sleeps that nobody ended although there was work: a wake-up was lost. */
  lostWakes: number;
}

const WRITER_BELL = 0;
const READER_BELL = 1;
/** Nobody is kept waiting so long unless the wake-up was lost. */
const LOST_MS = 3000;

const { role, ring, doorbells, messages, seed } = workerData as RaceData;
const words = new Int32Array(doorbells);
const random = new SeededRandom(seed);
const outcome: RaceOutcome = { role, done: 0, wrong: 0, wakes: 0, lostWakes: 0 };
const owner = new DoorbellOwner(words, role === "writer" ? WRITER_BELL : READER_BELL);
const other = new Doorbell(words, role === "writer" ? READER_BELL : WRITER_BELL);

/** Both ends derive a message's length from its number. */
const lengthOf = (number: number): number => 16 + (((number * 2654435761) >>> 0) % 1000);

/** A pause at a place where a thread may be held up. */
function dawdle(): void {
  if (!random.chance(0.3)) return;
  let spins = random.between(1, 300);
  while (spins > 0) spins--;
}

function sleep(announceMore: () => void, hasWork: () => boolean): void {
  owner.prepare();
  dawdle();
  announceMore();
  dawdle();
  if (hasWork()) {
    owner.cancel();
    return;
  }
  dawdle();
  const before = performance.now();
  owner.sleep(LOST_MS);
  if (performance.now() - before >= LOST_MS && hasWork()) outcome.lostWakes++;
  else outcome.wakes++;
}

function write(): void {
  const writer = new RingWriter(ring);
  while (outcome.done < messages && outcome.lostWakes === 0) {
    const batch = random.between(1, 12);
    let full = false;
    for (let i = 0; i < batch && outcome.done < messages; i++) {
      const length = lengthOf(outcome.done);
      const offset = writer.claim(length);
      if (offset === FULL) {
        full = true;
        break;
      }
      writer.int32[(offset >> 2) + 1] = outcome.done;
      writer.bytes.fill(outcome.done & 0xff, offset + 8, offset + length);
      outcome.done++;
    }
    if (writer.publish()) {
      dawdle();
      other.ring();
    }
    const length = lengthOf(outcome.done);
    if (full)
      sleep(
        () => writer.wantRoom(),
        () => writer.hasRoom(length),
      );
  }
}

function read(): void {
  const reader = new RingReader(ring);
  while (outcome.done < messages && outcome.lostWakes === 0) {
    const batch = random.between(1, 12);
    let taken = 0;
    for (; taken < batch; taken++) {
      const offset = reader.next();
      if (offset === EMPTY) break;
      const length = lengthOf(outcome.done);
      const last = offset + length - 1;
      const good =
        reader.int32[offset >> 2] === ((length + 7) & ~7) &&
        reader.int32[(offset >> 2) + 1] === outcome.done &&
        reader.bytes[offset + 8] === (outcome.done & 0xff) &&
        reader.bytes[last] === (outcome.done & 0xff);
      if (!good) outcome.wrong++;
      outcome.done++;
    }
    dawdle();
    if (reader.release()) {
      dawdle();
      other.ring();
    }
    if (taken === 0)
      sleep(
        () => {},
        () => reader.hasMessage,
      );
  }
}

if (role === "writer") write();
else read();
parentPort!.postMessage(outcome);
