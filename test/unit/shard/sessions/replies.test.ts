// Tests of long replies, sent piece by piece as the client reads.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Engine } from "../../../../src/engine/engine.ts";
import { BodyArena } from "../../../../src/engine/jobs/body-arena.ts";
import { JobState, JobTable, NO_SLOT, PAGE_BITS, PAGE_MASK } from "../../../../src/engine/jobs/job-table.ts";
import type { Session } from "../../../../src/engine/state/session.ts";
import {
  RESPONSE_HEADER_BYTES,
  ReplyCredit,
  ReplyPort,
  ResponseFlag,
} from "../../../../src/message/response.ts";
import { ReplyWord } from "../../../../src/protocol/reply.ts";
import { createRing, EMPTY, RingReader, WANTED_WORD } from "../../../../src/ring/ring.ts";
import { ReplyWriter } from "../../../../src/shard/sessions/replies.ts";
import { ShardSession } from "../../../../src/shard/sessions/shard-session.ts";

const KIB = 1024;
const MIB = 1024 * KIB;
const PIECE_BYTES = 32 * KIB;
/** Returns the time at which the first reservation of a session ends. */
const SOONEST_MS = 1234.5;
const { More } = ResponseFlag;

interface Message {
  readonly flags: number;
  readonly slot: number;
  readonly payload: Buffer;
}

/** The replies of a shard to one acceptor, without an engine but for what they look at. */
class Scene {
  readonly jobs = new JobTable();
  readonly bodies = new BodyArena();
  readonly port: ReplyPort;
  readonly replies: ReplyWriter;
  readonly #ring: SharedArrayBuffer;
  readonly #reader: RingReader;
  #jobs = 0;

  constructor(ringBytes = MIB) {
    this.#ring = createRing(ringBytes);
    this.#reader = new RingReader(this.#ring);
    this.port = new ReplyPort(this.#ring);
    const engine = {
      jobs: this.jobs,
      bodies: this.bodies,
      bestReady: () => NO_SLOT,
      find: () => NO_SLOT,
    };
    this.replies = new ReplyWriter(engine as unknown as Engine, [this.port], { lastNumber: 0 });
  }

  session(slot: number): ShardSession {
    return new ShardSession({ held: { size: 0, soonestMs: SOONEST_MS } } as unknown as Session, 0, slot);
  }

  /** A job of the next id, pri 5. */
  job(body: Uint8Array): number {
    const slot = this.jobs.allocate();
    const page = this.jobs.pages[slot >>> PAGE_BITS]!;
    const row = slot & PAGE_MASK;
    const handle = this.bodies.allocate(body.length);
    this.bodies.write(handle, 0, body, 0, body.length);
    page.state[row] = JobState.Ready;
    page.id[row] = ++this.#jobs;
    page.pri[row] = 5;
    page.body[row] = handle;
    page.bodyBytes[row] = body.length;
    return slot;
  }

  bodyOf(slot: number): number {
    return this.jobs.pages[slot >>> PAGE_BITS]!.body[slot & PAGE_MASK]!;
  }

  /** All messages that are in the ring, which is empty then. */
  take(): Message[] {
    this.port.publish(0);
    const messages: Message[] = [];
    for (let offset = this.#reader.next(); offset !== EMPTY; offset = this.#reader.next()) {
      const { int32, uint32, bytes } = this.#reader;
      const word = offset >> 2;
      const from = offset + RESPONSE_HEADER_BYTES;
      messages.push({
        flags: int32[word + 1]! >>> 16,
        slot: int32[word + 2]!,
        payload: Buffer.from(bytes.slice(from, from + uint32[word + 3]!)),
      });
    }
    this.#reader.release();
    return messages;
  }

  /** The whole long reply to a client that reads at once. */
  receiveLong(session: ShardSession): Message[] {
    const messages: Message[] = [];
    for (let turn = 0; turn < 20 && session.longReply !== undefined; turn++) {
      this.replies.pumpLong();
      messages.push(...this.take());
      session.read(payloads(messages).length);
    }
    return messages;
  }

  get wantsRoom(): boolean {
    return new Int32Array(this.#ring)[WANTED_WORD] === 1;
  }
}

const pattern = (bytes: number): Buffer =>
  Buffer.from(Uint8Array.from({ length: bytes }, (_, index) => index % 251));

const wholeReply = (word: string, id: number, body: Buffer): Buffer =>
  Buffer.concat([Buffer.from(`${word} ${id} ${body.length}\r\n`), body, Buffer.from("\r\n")]);

const payloads = (messages: readonly Message[]): Buffer =>
  Buffer.concat(messages.map(({ payload }) => payload));

describe("ReplyWriter: a long reply", () => {
  const headBytes = "RESERVED 1 131056\r\n".length;

  it("starts above 128 KiB, or above a message of the ring", () => {
    for (const [ringBytes, wholeBytesMax] of [
      [MIB, ReplyCredit.WholeReplyBytesMax],
      [64 * KIB, 16 * KIB - RESPONSE_HEADER_BYTES],
    ] as const) {
      for (const more of [0, 1]) {
        const scene = new Scene(ringBytes);
        const session = scene.session(0);
        const digits = ringBytes === MIB ? 6 : 5;
        const body = pattern(wholeBytesMax - headBytes + (6 - digits) - 2 + more);
        scene.replies.job(session, ReplyWord.reserved, scene.job(body), 0);
        assert.equal(session.longReply !== undefined, more === 1, `${ringBytes}, ${more}`);
        const messages = scene.take();
        if (more === 1) assert.deepEqual(messages, []);
        else assert.ok(payloads(messages).equals(wholeReply("RESERVED", 1, body)));
      }
    }
  });

  it("is at most 128 KiB ahead of the client", () => {
    const scene = new Scene();
    const session = scene.session(0);
    scene.replies.job(session, ReplyWord.found, scene.job(pattern(600 * KIB)), 0);
    let sentBytes = 0;
    const pump = (): number => {
      for (let i = 0; i < 10; i++) {
        scene.replies.pumpLong();
        sentBytes += payloads(scene.take()).length;
      }
      return sentBytes;
    };
    assert.equal(pump(), ReplyCredit.LongUnreadBytesMax);
    assert.equal(scene.replies.longHasWork, false);
    scene.replies.wantRoomForLong();
    assert.equal(scene.wantsRoom, false, "it waits for its client, not for room");
    session.read(1);
    assert.equal(scene.replies.longHasWork, true);
    assert.equal(pump(), ReplyCredit.LongUnreadBytesMax + PIECE_BYTES);
    session.read(sentBytes);
    assert.equal(pump(), 2 * ReplyCredit.LongUnreadBytesMax + PIECE_BYTES);
  });

  it("yields the ring from a quarter on, and asks for room", () => {
    const scene = new Scene(128 * KIB);
    const session = scene.session(0);
    scene.replies.job(session, ReplyWord.found, scene.job(pattern(200 * KIB)), 0);
    const other = scene.session(1);
    while (scene.port.ring.used <= 32 * KIB) scene.replies.fixed(other, Buffer.alloc(8000, "x"));
    assert.equal(scene.replies.hasRoomForPiece(session), false);
    assert.equal(scene.replies.longHasWork, false);
    scene.replies.pumpLong();
    assert.equal(session.unreadBytes, 0);
    scene.replies.wantRoomForLong();
    assert.equal(scene.wantsRoom, true);
    scene.take();
    assert.equal(scene.replies.longHasWork, true);
    scene.replies.pumpLong();
    assert.deepEqual(
      scene.take().map(({ slot, flags }) => [slot, flags]),
      [[0, More]],
    );
  });

  it("keeps its bytes if the job is deleted, and frees them at its end", () => {
    const scene = new Scene();
    const session = scene.session(0);
    const body = pattern(200 * KIB);
    const slot = scene.job(body);
    const reservedBytes = scene.bodies.reservedBytes;
    scene.replies.job(session, ReplyWord.reserved, slot, 0);
    scene.bodies.free(scene.bodyOf(slot));
    assert.equal(scene.bodies.reservedBytes, reservedBytes);
    const other = scene.job(Buffer.alloc(200 * KIB, "o"));
    const messages = scene.receiveLong(session);
    assert.ok(payloads(messages).equals(wholeReply("RESERVED", 1, body)));
    scene.bodies.free(scene.bodyOf(other));
    assert.ok(scene.bodies.reservedBytes < reservedBytes, "both bodies are given back");
  });

  it("has its turn however fast others read, and costs nothing while its client reads nothing", () => {
    const scene = new Scene(256 * KIB);
    const sessions = Array.from({ length: 6 }, (_, slot) => scene.session(slot));
    const body = scene.job(pattern(1000 * KIB));
    for (const session of sessions) scene.replies.job(session, ReplyWord.found, body, 0);
    const sent = sessions.map(() => 0);
    for (let turn = 0; turn < 60; turn++) {
      scene.replies.pumpLong();
      for (const { slot, payload } of scene.take()) {
        sent[slot]! += payload.length;
        // The last one reads nothing.
        if (slot < 5) sessions[slot]!.read(sent[slot]!);
      }
    }
    assert.equal(sent[5], ReplyCredit.LongUnreadBytesMax);
    for (const bytes of sent) assert.ok(bytes >= ReplyCredit.LongUnreadBytesMax, `${sent}`);
    assert.equal(scene.replies.longReady, 5, "those that may go on");
  });

  it("that is abandoned sends nothing more and frees its bytes; others continue", () => {
    const scene = new Scene();
    const [gone, left] = [scene.session(0), scene.session(1)];
    const slot = scene.job(pattern(300 * KIB));
    scene.replies.job(gone, ReplyWord.found, slot, 0);
    scene.replies.job(left, ReplyWord.found, scene.job(pattern(140 * KIB)), 0);
    scene.replies.pumpLong();
    scene.take();
    const { reservedBytes } = scene.bodies;
    scene.bodies.free(scene.bodyOf(slot));
    scene.replies.abandonLong(gone);
    assert.ok(scene.bodies.reservedBytes < reservedBytes);
    assert.equal(gone.longReply, undefined);
    scene.replies.pumpLong();
    assert.deepEqual(
      scene.take().map((message) => message.slot),
      [1],
    );
    scene.replies.abandonLong(gone);
    assert.notEqual(left.longReply, undefined, "a session without a long reply abandons none");
  });
});
