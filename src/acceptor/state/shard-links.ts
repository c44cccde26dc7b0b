// The rings between one acceptor and all shards, and the messages that found a ring full.

import { requestPayloadBytesMax, writeRequest } from "../../message/request.ts";
import { portBell, type Topology, threadOfShard } from "../../message/topology.ts";
import { Request } from "../../protocol/request.ts";
import { RingReader } from "../../ring/ring-reader.ts";
import { RingWriter } from "../../ring/ring-writer.ts";

export class ShardLinks {
  readonly requests: readonly RingWriter[];
  readonly responses: readonly RingReader[];
  /** 0 for each shard in the acceptor's thread, 1 for the others. */
  readonly crossing: Uint8Array;
  /** The largest payload of one message. */
  readonly payloadBytesMax: number;
  /** For each shard, messages that found its ring full. */
  readonly #posted: Request[][];
  /** 1 for each shard whose ring had no room for a command. */
  readonly #full: Uint8Array;
  /** Whether a message waits for room in a ring. */
  isBlocked = false;
  /** Whether messages were written that their shards cannot see yet. */
  hasUnpublished = false;
  /** Reused for every outgoing message. */
  readonly #message = new Request();

  constructor(topology: Topology, acceptor: number) {
    this.requests = topology.requests[acceptor]!.map((ring) => new RingWriter(ring));
    this.responses = topology.responses[acceptor]!.map((ring) => new RingReader(ring));
    const bell = portBell(topology, acceptor);
    this.crossing = Uint8Array.from(this.requests, (_, s) => Number(threadOfShard(topology, s) !== bell));
    this.payloadBytesMax = requestPayloadBytesMax(this.requests[0]!);
    this.#posted = this.requests.map(() => []);
    this.#full = new Uint8Array(topology.shards);
  }

  /** Returns the only message object, reset. Send it before asking for the next one. */
  message(op: number): Request {
    return this.#message.begin(op);
  }

  /** Writes a message if the ring has room and no posted message has to go first. */
  write(shard: number, request: Request): boolean {
    if (this.#posted[shard]!.length > 0 || !writeRequest(this.requests[shard]!, request)) return false;
    this.hasUnpublished = true;
    return true;
  }

  /** Writes a message now or, if the ring is full, queues a copy ahead of everything else. */
  post(shard: number, request: Request): void {
    if (this.write(shard, request)) return;
    this.#posted[shard]!.push(request.clone());
    this.isBlocked = true;
  }

  /** Writes queued messages that now have room. */
  drainPosted(): void {
    for (let shard = 0; shard < this.requests.length; shard++) {
      const posted = this.#posted[shard]!;
      let done = 0;
      while (done < posted.length && writeRequest(this.requests[shard]!, posted[done]!)) done++;
      if (done === 0) continue;
      posted.splice(0, done);
      this.hasUnpublished = true;
    }
    this.#noteBlocked();
  }

  /** Notes that a command waits for room in the ring to the shard. */
  noteFull(shard: number): void {
    this.#full[shard] = 1;
    this.isBlocked = true;
  }

  /** Clears these notes, because the waiting connections are about to retry. */
  forgetFull(): void {
    this.#full.fill(0);
    this.#noteBlocked();
  }

  #noteBlocked(): void {
    this.isBlocked = this.requests.some((_, shard) => this.#wantsRoom(shard));
  }

  /**
   * Makes requests visible to the shards and calls `onPublished` for each shard that has new ones.
   */
  publish(onPublished: (shard: number) => void): void {
    this.hasUnpublished = false;
    for (let shard = 0; shard < this.requests.length; shard++)
      if (this.requests[shard]!.publish()) onPublished(shard);
  }

  /**
   * Whether a ring that a message waits for has room for any message. If not, the ring holds
   * messages that its shard has yet to release; if asked to, the shard signals when it does. An
   * empty ring has room for any message.
   */
  get hasRoomAgain(): boolean {
    for (let shard = 0; shard < this.requests.length; shard++) {
      const ring = this.requests[shard]!;
      if (this.#wantsRoom(shard) && ring.hasRoom(ring.messageBytesMax)) return true;
    }
    return false;
  }

  /** Asks the shards that block a message to signal when they have made room. */
  wantRoom(): void {
    for (let shard = 0; shard < this.requests.length; shard++)
      if (this.#wantsRoom(shard)) this.requests[shard]!.wantRoom();
  }

  /** Whether a shard has answered. */
  get hasAnswers(): boolean {
    return this.responses.some((ring) => ring.hasMessage);
  }

  #wantsRoom(shard: number): boolean {
    return this.#full[shard] === 1 || this.#posted[shard]!.length > 0;
  }
}
