// A ring of the smallest legal size, lap after lap: messages of all sizes, full, empty, padding,
// positions over 2^32.

import {
  createRing,
  DATA_OFFSET,
  EMPTY,
  HEAD_WORD,
  RING_BYTES_MIN,
  RingReader,
  RingWriter,
  TAIL_WORD,
} from "../../../src/ring/ring.ts";
import type { ActorRun, Shared, StressCase } from "../case.ts";
import { faultOf, lengthOf, writeMessage } from "../numbered-message.ts";
import { plain } from "../pauses.ts";
import { CrampedWriter, HastyReader, HastyWriter } from "../planted/rings.ts";

const HASTY_WRITER = "publishes before it copies";
const CRAMPED_WRITER = "forgets the room for padding";
const HASTY_READER = "releases before it has read";
const WRITER = 0;
const BATCH_MAX = 12;
/** The positions wrap after some laps. */
const START = -64 * 1024;

function write(ring: SharedArrayBuffer, run: ActorRun): void {
  const Writer =
    run.planted === HASTY_WRITER ? HastyWriter : run.planted === CRAMPED_WRITER ? CrampedWriter : RingWriter;
  const writer = new Writer(ring);
  const words = new Int32Array(ring, 0, DATA_OFFSET / 4);
  let number = 0;
  let tail = START;
  while (run.next()) {
    const batch = run.random.between(1, BATCH_MAX);
    for (let i = 0; i < batch; i++) {
      if (run.random.chance(0.1) && writer.hasRoom(lengthOf(number))) {
        if (!writeMessage(writer, number))
          run.see("no room after hasRoom had said that there is", `${number}`);
      } else if (!writeMessage(writer, number)) {
        run.see("full");
        break;
      }
      number++;
    }
    const { used } = writer;
    if (used < 0 || used > RING_BYTES_MIN) run.see("used is more than the ring", `${used}`);
    writer.publish();
    const before = tail;
    tail = plain.load(words, TAIL_WORD);
    if (before < 0 && tail >= 0) run.see("the positions passed 2^32");
  }
}

function read(ring: SharedArrayBuffer, run: ActorRun): void {
  const reader = run.planted === HASTY_READER ? new HastyReader(ring) : new RingReader(ring);
  const offsets = new Int32Array(BATCH_MAX);
  let number = 0;
  let end = START & (RING_BYTES_MIN - 1);
  while (run.next()) {
    const batch = run.random.between(1, BATCH_MAX);
    const had = run.random.chance(0.1) && reader.hasMessage;
    let taken = 0;
    for (; taken < batch; taken++) {
      const offset = reader.next();
      if (offset === EMPTY) {
        run.see(had && taken === 0 ? "empty after hasMessage had said that it is not" : "empty");
        break;
      }
      seePlace(run, offset, end);
      end = offset + ((lengthOf(number + taken) + 7) & ~7);
      offsets[taken] = offset;
    }
    // Until the release the bytes are the reader's, so they are compared as late as can be.
    for (let i = 0; i < taken; i++) {
      const fault = faultOf(reader, offsets[i]!, number);
      if (fault === undefined) run.see("a message whole and in order");
      else run.see("a message torn, lost or twice", fault);
      if (run.failed) return;
      number++;
    }
    if (reader.release()) run.see("rung although nobody wants room");
  }
}

/** A message lies at `offset`; the one before it ended at `end`. */
function seePlace(run: ActorRun, offset: number, end: number): void {
  if (offset === end % RING_BYTES_MIN) {
    if (end === RING_BYTES_MIN) run.see("a message ended with the ring");
    return;
  }
  const what = offset === 0 ? "padding was skipped" : "a message at the wrong place";
  run.see(what, `${offset}, not ${end}`);
}

export const ringLapsCase: StressCase = {
  name: "ring-laps",
  about: "one writer and one reader on a ring of 4 KiB, with every size of message",
  actors: ["writer", "reader"],
  outcomes: [
    {
      result: "a message whole and in order",
      verdict: "ACCEPTABLE",
      why: "what is published is filled, and stays until it is released",
      required: true,
    },
    { result: "full", verdict: "ACCEPTABLE", why: "the reader has not released enough yet", required: true },
    { result: "empty", verdict: "ACCEPTABLE", why: "the writer has not published more yet", required: true },
    {
      result: "padding was skipped",
      verdict: "INTERESTING",
      why: "the next message did not fit before the end of the ring",
      required: true,
    },
    {
      result: "a message ended with the ring",
      verdict: "INTERESTING",
      why: "the next one starts at 0 without padding",
    },
    {
      result: "the positions passed 2^32",
      verdict: "INTERESTING",
      why: "positions are int32 that wrap; only their difference and their low bits count",
      required: true,
    },
  ],
  planted: [HASTY_WRITER, CRAMPED_WRITER, HASTY_READER],
  create() {
    const ring = createRing(RING_BYTES_MIN);
    const words = new Int32Array(ring, 0, DATA_OFFSET / 4);
    words[TAIL_WORD] = START;
    words[HEAD_WORD] = START;
    return { ring };
  },
  play(actor: number, shared: Shared, run: ActorRun) {
    if (actor === WRITER) write(shared["ring"]!, run);
    else read(shared["ring"]!, run);
  },
};
