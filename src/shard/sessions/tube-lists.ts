// Sends lists of this shard's tubes to acceptors, one message of each list per turn, so that
// hundreds of thousands of tubes delay no other client.
//
// A tube that exists throughout is listed once. A tube that is created or removed meanwhile may be
// listed or not.

import { assert, CHECKED } from "../../base/assert.ts";
import { copyBytes } from "../../base/bytes.ts";
import type { Engine } from "../../engine/engine.ts";
import type { Tube } from "../../engine/tubes/tube.ts";
import { type ReplyPort, ResponseKind } from "../../message/response.ts";
import { TUBE_NAME_BYTES_MAX } from "../../protocol/limits.ts";
import type { ReplyWriter } from "./replies.ts";
import type { ShardSession } from "./shard-session.ts";

/** Bytes of a list in one message. */
const MESSAGE_BYTES_MAX = 32 * 1024;
/** Bytes of an entry before its name: see message/response.ts. */
const HEADER_BYTES = 9;

interface TubeList {
  readonly session: ShardSession;
  readonly tubes: Iterator<Tube>;
  /** The next tube to list. */
  next: Tube | undefined;
  /**
   * Tubes still to list: their number at the start, so that new tubes cannot prolong the list for
   * ever.
   */
  remaining: number;
}

export class TubeLists {
  readonly #engine: Engine;
  readonly #ports: readonly ReplyPort[];
  readonly #replies: ReplyWriter;
  underWay: readonly TubeList[] = [];
  /** Scratch space for a message whose length is not known yet. */
  readonly #bytes = new Uint8Array(MESSAGE_BYTES_MAX);
  readonly #view = new DataView(this.#bytes.buffer);

  constructor(engine: Engine, ports: readonly ReplyPort[], replies: ReplyWriter) {
    this.#engine = engine;
    this.#ports = ports;
    this.#replies = replies;
  }

  /**
   * Sends all tubes, in the order in which they were created, then Ack. The first message goes now.
   */
  begin(session: ShardSession): void {
    if (CHECKED)
      assert(!this.underWay.some((list) => list.session === session), "a session has one list at a time");
    const tubes = this.#engine.tubes.values();
    const list: TubeList = { session, tubes, next: undefined, remaining: this.#engine.tubes.size };
    this.#goOn(list);
    if (!this.#send(list)) this.underWay = [...this.underWay, list];
  }

  /** Whether a list could continue now. */
  get hasWork(): boolean {
    return this.underWay.some((list) => this.#replies.hasRoomForPiece(list.session));
  }

  /** Asks for room for all lists. */
  wantRoom(): void {
    for (const { session } of this.underWay) this.#ports[session.acceptor]!.ring.wantRoom();
  }

  /** Sends a message of each list that has room for it. */
  pump(): void {
    this.underWay = this.underWay.filter(
      (list) => !this.#replies.hasRoomForPiece(list.session) || !this.#send(list),
    );
  }

  /** Gives up the list for a session that ends. */
  abandon(session: ShardSession): void {
    if (this.underWay.length > 0) this.underWay = this.underWay.filter((list) => list.session !== session);
  }

  /** Sends the next message. Returns true if it was the last. */
  #send(list: TubeList): boolean {
    const { session } = list;
    const port = this.#ports[session.acceptor]!;
    const room = Math.min(port.payloadBytesMax, MESSAGE_BYTES_MAX);
    let at = 0;
    for (; list.next !== undefined; this.#goOn(list)) {
      const { name, sequence } = list.next;
      assert(name.length <= TUBE_NAME_BYTES_MAX, "the length of a name fits into a byte");
      if (at + HEADER_BYTES + name.length > room) break;
      this.#view.setFloat64(at, sequence, true);
      this.#bytes[at + 8] = name.length;
      for (let i = 0; i < name.length; i++) this.#bytes[at + HEADER_BYTES + i] = name.charCodeAt(i);
      at += HEADER_BYTES + name.length;
    }
    if (at > 0) {
      port.beginSignal(ResponseKind.Tubes, 0, session.connectionSlot, at);
      copyBytes(port.target, port.at, this.#bytes, 0, at);
    }
    assert(
      at <= room && (at > 0 || list.next === undefined),
      "a message of a list has at least one tube, and fits",
    );
    if (list.next !== undefined) return false;
    this.#replies.signal(session, ResponseKind.Ack);
    return true;
  }

  #goOn(list: TubeList): void {
    assert(list.remaining >= 0, "a list continues only while tubes remain");
    const step = list.remaining-- > 0 ? list.tubes.next() : undefined;
    list.next = step === undefined || step.done === true ? undefined : step.value;
  }
}
