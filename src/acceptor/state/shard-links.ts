// The rings between one acceptor and all shards, and the messages that found a ring full.

import { requestPayloadBytesMax, writeRequest } from "../../message/request.ts";
import type { Topology } from "../../message/topology.ts";
import type { Request } from "../../protocol/request.ts";
import { RingReader } from "../../ring/ring-reader.ts";
import { RingWriter } from "../../ring/ring-writer.ts";

export class ShardLinks {
  readonly requests: readonly RingWriter[];
  readonly responses: readonly RingReader[];
  /** Largest payload of one message. */
  readonly payloadBytesMax: number;
  /** For each shard, messages that found its ring full. */
  readonly #posted: Request[][];
  /** 1 for each shard whose ring had no room for a command. */
  readonly #full: Uint8Array;

  constructor(topology: Topology, acceptor: number) {
    this.requests = topology.requests[acceptor]!.map((ring) => new RingWriter(ring));
    this.responses = topology.responses[acceptor]!.map((ring) => new RingReader(ring));
    this.payloadBytesMax = requestPayloadBytesMax(this.requests[0]!);
    this.#posted = this.requests.map(() => []);
    this.#full = new Uint8Array(topology.shards);
  }

  /** Writes a message if there is room, and nothing posted has to go first. */
  write(shard: number, request: Request): boolean {
    return this.#posted[shard]!.length === 0 && writeRequest(this.requests[shard]!, request);
  }

  /** Writes a message now or, when the ring is full, a copy of it before anything else later. */
  post(shard: number, request: Request): void {
    if (!this.write(shard, request)) this.#posted[shard]!.push(request.clone());
  }

  /** Writes what was posted and has room now. */
  drainPosted(): void {
    for (let shard = 0; shard < this.requests.length; shard++) {
      const posted = this.#posted[shard]!;
      let done = 0;
      while (done < posted.length && writeRequest(this.requests[shard]!, posted[done]!)) done++;
      if (done > 0) posted.splice(0, done);
    }
  }

  /** A command waits for room in the ring to the shard. */
  noteFull(shard: number): void {
    this.#full[shard] = 1;
  }

  /** Those who wait for room try again. */
  forgetFull(): void {
    this.#full.fill(0);
  }

  /** Whether a shard can't see something that was written for it. */
  get hasUnpublished(): boolean {
    for (const ring of this.requests) if (ring.hasUnpublished) return true;
    return false;
  }

  /** Makes requests visible; `onPublished` is called for each shard with new ones. */
  publish(onPublished: (shard: number) => void): void {
    for (let shard = 0; shard < this.requests.length; shard++)
      if (this.requests[shard]!.publish()) onPublished(shard);
  }

  /**
   * Whether a ring that something waits for has room for any message. If not, there are messages in it that
   * its shard has still to release, and it rings then if it was asked to: an empty ring has room for any
   * message.
   */
  get hasRoomAgain(): boolean {
    for (let shard = 0; shard < this.requests.length; shard++) {
      const ring = this.requests[shard]!;
      if (this.#wantsRoom(shard) && ring.hasRoom(ring.messageBytesMax)) return true;
    }
    return false;
  }

  /** Asks the shards to ring when they have made room, where something waits for it. */
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
