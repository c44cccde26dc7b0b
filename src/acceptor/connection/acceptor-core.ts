// The core of an acceptor, as plain code: connections in slots, rings to and from every shard. It
// has no thread, no socket and no clock.
//
// Sockets call `connect` and pass incoming bytes to the connection's methods. The loop calls
// `publish`, which makes the connections' requests visible, `takeAnswers`, which takes the shards'
// answers and resumes waiting connections, and `flush`, which sends each connection's replies with
// one write.

import { assert } from "../../base/assert.ts";
import { MigrationView, RequestOp } from "../../message/request.ts";
import {
  AnswerView,
  BarrierView,
  CarryView,
  RESPONSE_HEADER_BYTES,
  ResponseFlag,
  ResponseKind,
  STORED_HEADER_BYTES,
  StoredView,
} from "../../message/response.ts";
import { ControlWord, Counter } from "../../message/topology.ts";
import { Span } from "../../protocol/request.ts";
import { EMPTY, type RingReader } from "../../ring/ring.ts";
import { ControlWords } from "../../ring/shared-words.ts";
import type { ConnectionFilter } from "../admission/line-filter.ts";
import type { MovedConnection } from "../migration/client-state.ts";
import type { MigrationReceiver } from "../migration/migration-ring.ts";
import { BarrierAcks, type ControlAnswers, ShardRelay } from "../state/shard-links.ts";
import type { BodyPart } from "../stream/output.ts";
import type { Transport } from "../stream/transport.ts";
import { type AcceptorOptions, AcceptorState } from "./acceptor-state.ts";
import { Connection, ConnectionSlots } from "./connection.ts";

/** Answers taken from one shard before the other shards get their turn. */
const BATCH_MESSAGES = 1024;

export class AcceptorCore extends AcceptorState {
  readonly barriers: BarrierAcks;
  readonly #relay: ShardRelay;
  /** Receives the answers to Control requests, if this thread sends any. */
  control: ControlAnswers | undefined;
  readonly slots: ConnectionSlots;
  /** The number of open connections. */
  open = 0;
  /** Receives connections from other acceptors, if migration is on. */
  migrationReceiver: MigrationReceiver | undefined;
  #stopping = false;
  /** Whether a metrics reader may ask for the counters that only metrics use. */
  readonly #hasMetrics: boolean;
  readonly #control: ControlWords;
  /** Reused for every answer. */
  readonly #payload = new Span();
  readonly #part: BodyPart = { arena: undefined, handle: 0, offset: 0, length: 0, isLast: false };
  readonly #signal = {
    ...{ shard: 0, kind: 0, flags: 0, value: 0, pri: 0, soonestMs: 0, recordNumber: 0 },
    payload: this.#payload,
  };

  constructor(options: AcceptorOptions) {
    super(options);
    const { topology, firstSlot = 0 } = options;
    this.#hasMetrics = topology.ports > topology.acceptors;
    this.barriers = new BarrierAcks(this.links);
    this.#relay = new ShardRelay(this.links, this.log);
    this.slots = new ConnectionSlots(firstSlot, this.workerNames);
    this.#control = new ControlWords(topology.control);
  }

  // --- connections -------------------------------------------------------------------------------

  /** Opens a connection. Returns undefined if all slots are taken. */
  connect(
    transport: Transport,
    filter?: ConnectionFilter,
    peer?: string,
    listener?: number,
  ): Connection | undefined {
    const slot = this.slots.take(peer);
    if (slot === undefined) return undefined;
    this.open++;
    this.#add(Counter.Connections, 1);
    this.#add(Counter.TotalConnections, 1);
    const connection = new Connection(this, slot, transport, undefined, filter);
    connection.client.peer = peer;
    connection.client.listener = listener;
    this.slots.connections[slot] = connection;
    return connection;
  }

  /** Handles a closed socket. Its descriptor is freed once every shard has forgotten it. */
  disconnect(connection: Connection): void {
    if (connection.isDead) return;
    connection.onClosed();
    this.open--;
    if (connection.closesLeft === 0) this.#release(connection);
  }

  /** Frees the slot of a connection that nothing refers to any more. */
  #release(connection: Connection): void {
    this.slots.vacate(connection.slot);
    connection.transport.destroy();
  }

  /** Hands a connection to another acceptor. Its slot stays taken: shards may still know it. */
  depart(slot: number): void {
    const connection = this.slots.connections[slot]!;
    connection.depart();
    this.pendingReplies.forget(connection.replies);
    this.open--;
    this.#add(Counter.MovedOut, 1);
  }

  /** Accepts a connection from another acceptor, with the state it had there. */
  land({ number, state }: MovedConnection, transport: Transport): Connection {
    const slot = this.slots.take(state.name ?? state.peer);
    assert(slot !== undefined, "an acceptor that receives connections has free slots");
    this.open++;
    this.#add(Counter.MovedIn, 1);
    for (const shard of state.touched) {
      const adopt = this.links.message(RequestOp.Adopt);
      MigrationView.fill(adopt, slot, number);
      this.links.post(shard, adopt);
    }
    const connection = new Connection(this, slot, transport, state);
    this.slots.connections[slot] = connection;
    if (this.#stopping) connection.endWhenIdle("stop");
    return connection;
  }

  /** Ends all connections after their commands in flight, including those that arrive later. */
  endAll(): void {
    this.#stopping = true;
    this.migrator?.stop();
    this.slots.endAll();
  }

  #add(counter: number, change: number): void {
    this.counters[counter] = this.counters[counter]! + change;
  }

  // --- a turn, step by step: the interface of the loop -------------------------------------------

  /** Takes answers and resumes connections. Returns the number of answers taken. */
  takeAnswers(onWriterWaits: (shard: number) => void): number {
    let taken = 0;
    this.turnTimeMs = 0;
    this.migrationReceiver?.take();
    for (let shard = 0; shard < this.shards; shard++) {
      const ring = this.links.responses[shard]!;
      let took = 0;
      for (; took < BATCH_MESSAGES; took++) {
        const offset = ring.next();
        if (offset === EMPTY) break;
        this.#receive(ring, offset, shard);
      }
      taken += took;
      this.counters[Counter.Crossed]! += this.links.crossing[shard]! * took;
      if (ring.release()) onWriterWaits(shard);
    }
    if (taken > 0 && this.#hasMetrics) this.sampler.turned();
    if (this.links.isBlocked) this.links.drainPosted();
    if (this.#relay.waitsForLog && !this.#control.isSet(ControlWord.NoMoreReplies)) this.#relay.turn();
    if (this.runQueues.waitingForRoom.length > 0) {
      this.links.forgetFull();
      this.runQueues.retryRoom();
    }
    this.runQueues.letProceed();
    if (this.listReplies.hasWork) this.listReplies.turn();
    return taken;
  }

  /** Whether replies or messages between shards wait for the log. */
  get waitsForLog(): boolean {
    return this.runQueues.waitingForLog.length > 0 || this.#relay.waitsForLog;
  }

  /** Whether anything that waited for the log may be sent. Nothing may once the log has ended. */
  get hasDurable(): boolean {
    if (this.#control.isSet(ControlWord.NoMoreReplies)) return false;
    const { runQueues } = this;
    return (
      (runQueues.waitingForLog.length > 0 && this.log.hasMoved && runQueues.hasDurable) ||
      (this.#relay.waitsForLog && this.#relay.mayGoOn)
    );
  }

  /** Sends the gathered replies, unless the log has failed: they could report lost changes. */
  flush(): void {
    if (this.#control.isSet(ControlWord.NoMoreReplies)) {
      this.runQueues.dropOutput();
      return;
    }
    // Hundreds of replies may be held, so they are checked only if the log has advanced. The
    // progress is noted before the check, so any progress during the check counts as new.
    const hasMoved = this.runQueues.waitingForLog.length > 0 && this.log.hasMoved;
    if (hasMoved) this.log.noteSeen();
    this.runQueues.flush(hasMoved);
  }

  /** Makes requests visible and calls `onPublished` for each shard that has new ones. */
  publish(onPublished: (shard: number) => void): void {
    // Waking a thread may preempt this one, so publish the connection and all requests first.
    if (this.migrator?.hasUnpublished) this.#publishMigrations(onPublished);
    else this.links.publish(onPublished);
  }

  #publishMigrations(onPublished: (shard: number) => void): void {
    const shards: number[] = [];
    this.links.publish((shard) => shards.push(shard));
    this.migrator!.publish();
    for (const shard of shards) onPublished(shard);
  }

  /** Whether there is work that no ring or socket will announce. */
  get hasWork(): boolean {
    return (
      this.barriers.hasWork ||
      this.runQueues.toProceed.length > 0 ||
      this.runQueues.dirty.length > 0 ||
      this.listReplies.hasWork ||
      this.links.hasUnpublished ||
      this.migrator?.hasUnpublished === true ||
      (this.links.isBlocked && this.links.hasRoomAgain)
    );
  }

  /** Whether a ring that a message waits for has room again: see ShardLinks. */
  get hasRoomAgain(): boolean {
    return this.links.isBlocked && this.links.hasRoomAgain;
  }

  /** Asks the shards that block a message to signal when they have made room. */
  wantRoom(): void {
    if (this.links.isBlocked) this.links.wantRoom();
  }

  /** Whether a shard has answered or a connection has arrived. */
  get hasAnswers(): boolean {
    for (const ring of this.links.responses) if (ring.hasMessage) return true;
    return this.migrationReceiver?.hasSome === true;
  }

  // put 15/18
  #receive(ring: RingReader, offset: number, shard: number): void {
    const word = offset >> 2;
    const first = ring.uint32[word + 1]!;
    const kind = first & 0xff;
    const flags = first >>> 16;
    const slot = ring.int32[word + 2]!;
    const at = offset + RESPONSE_HEADER_BYTES;
    if (kind === ResponseKind.Barrier) {
      const barrier = BarrierView.barrier(ring, offset);
      this.barriers.take(shard, barrier, (flags & ResponseFlag.HaveRead) !== 0);
      return;
    }
    if (kind === ResponseKind.Control) {
      const { control } = this;
      assert(control !== undefined, "a thread without Control requests gets no answers");
      const payload = ring.bytes.subarray(at, at + ring.uint32[word + 3]!);
      const number = AnswerView.question(ring, offset);
      control.onAnswer({ shard, flags, number, recordNumber: ring.uint32[word + 7]!, payload });
      return;
    }
    if (kind === ResponseKind.Carry) {
      const transferMessage = CarryView.transferMessage(ring, offset);
      const message = this.#relay.message(shard, transferMessage, CarryView.transfer(ring, offset));
      message.body.set(ring.bytes, at, at + ring.uint32[word + 3]!);
      const durable = (flags & ResponseFlag.Durable) !== 0;
      const toShard = CarryView.toShard(ring, offset);
      this.#relay.carry(shard, toShard, message, durable, ring.uint32[word + 7]!);
      return;
    }
    const connection = this.slots.connections[slot];
    assert(connection !== undefined, "a slot is free only when all shards have forgotten it");
    if (kind === ResponseKind.Detached) {
      this.migrator?.onDetached(slot);
      return;
    }
    if (kind === ResponseKind.Closed) {
      this.#forgotten(connection);
      return;
    }
    const payload = this.#payload;
    payload.set(ring.bytes, at, at + ring.uint32[word + 3]!);
    if (kind === ResponseKind.Stored) {
      this.#receiveStored(connection, ring, offset, shard);
      return;
    }
    const { replies } = connection;
    // The client may be gone.
    if (replies.isDeaf) {
      replies.noteUnread(kind, payload);
      return;
    }
    if (kind === ResponseKind.Reply) {
      replies.onReply(shard, flags, ring.uint32[word + 7]!, payload);
    } else if (kind === ResponseKind.Tubes) {
      replies.conversation?.onTubes?.(shard, payload);
    } else if (kind === ResponseKind.Gathered) {
      replies.onGathered(shard, flags, payload);
    } else {
      const signal = this.#signal;
      signal.shard = shard;
      signal.kind = kind;
      signal.flags = flags;
      signal.value = ring.float64[(offset >> 3) + 2]!;
      signal.pri = ring.uint32[word + 6]!;
      signal.recordNumber = ring.uint32[word + 7]!;
      signal.soonestMs = ring.float64[at >> 3]!;
      replies.onSignal(signal);
    }
  }

  /** Handles a reply with part of a stored body. The body is pinned until this returns. */
  #receiveStored({ replies }: Connection, ring: RingReader, offset: number, shard: number): void {
    const arena = this.arenas[shard];
    assert(arena !== undefined, "only a shard of this thread refers to bodies in its arena");
    const word = offset >> 2;
    const handle = StoredView.handle(ring, offset);
    if (!replies.isDeaf) {
      const head = this.#payload;
      const length = ring.uint32[head.start >> 2]!;
      const isLast = ring.uint32[(head.start >> 2) + 1] === 1;
      head.set(head.bytes, head.start + STORED_HEADER_BYTES, head.end);
      const part = this.#part;
      part.arena = arena;
      part.handle = handle;
      part.offset = StoredView.offset(ring, offset);
      part.length = length;
      part.isLast = isLast;
      replies.onReply(shard, ring.uint32[word + 1]! >>> 16, ring.uint32[word + 7]!, head, part);
    }
    arena.unpin(handle);
  }

  /** Handles a Closed: one more shard has released what the connection held. */
  #forgotten(connection: Connection): void {
    const { replies } = connection;
    assert(connection.closesLeft > 0, "a shard answers Closed once");
    if (--connection.closesLeft > 0) return;
    this.pendingReplies.expectNothing(replies);
    replies.endByHand();
    this.#add(Counter.Connections, -1);
    connection.onForgotten();
    if (connection.isDead) this.#release(connection);
    else this.runQueues.markDirty(connection);
  }
}
