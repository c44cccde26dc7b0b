// Planted bugs that the simulation must find: each breaks the server from outside, in the test tree
// only.

import type { AcceptorCore } from "../../../src/acceptor/connection/acceptor-core.ts";
import type { Connection } from "../../../src/acceptor/connection/connection.ts";
import { type BodyArena, BodyPlace } from "../../../src/engine/jobs/body-arena.ts";
import { NO_SLOT, rowOf } from "../../../src/engine/jobs/job-table.ts";
import { RequestOp } from "../../../src/message/request.ts";
import { ResponseKind } from "../../../src/message/response.ts";
import { Counter } from "../../../src/message/topology.ts";
import { Op } from "../../../src/protocol/commands.ts";
import { type Doorbell, DoorbellOwner } from "../../../src/ring/doorbell.ts";
import { InProcessServer } from "../server/in-process-server.ts";
import { everyNth, type PlantedBug, planted, plantedIn } from "./planted-bug.ts";

class LateOwner extends DoorbellOwner {
  override prepare(): void {}

  announce(): void {
    super.prepare();
  }
}

class LateAnnouncement extends InProcessServer {
  override createOwner(words: Int32Array, thread: number): DoorbellOwner {
    return new LateOwner(words, thread);
  }

  override fallAsleep(owner: LateOwner): void {
    owner.announce();
  }
}

class LostRing extends InProcessServer {
  readonly #isLost = everyNth(20);

  override createBell(from: number, to: number): Doorbell {
    const bell = super.createBell(from, to);
    const ring = bell.ring.bind(bell);
    bell.ring = () => !this.#isLost() && ring();
    return bell;
  }
}

/** Breaks each connection when it is made. */
export function onConnections(
  acceptors: readonly AcceptorCore[],
  plant: (connection: Connection) => void,
): void {
  for (const core of acceptors) {
    const connect = core.connect.bind(core);
    core.connect = (transport) => {
      const connection = connect(transport);
      if (connection !== undefined) plant(connection);
      return connection;
    };
  }
}

/** Calls `plant` whenever a connection has told its shards to forget it. */
function onEnds(core: AcceptorCore, plant: (connection: Connection) => void): void {
  const watch = (connection: Connection): Connection => {
    const { replies } = connection;
    const end = connection.end.bind(connection);
    connection.end = (reason) => {
      const ends = !replies.isEnding;
      end(reason);
      if (ends) plant(connection);
      return true;
    };
    return connection;
  };
  onConnections([core], watch);
  const land = core.land.bind(core);
  core.land = (moved, transport) => watch(land(moved, transport));
}

/** Has an arena forget the pins that are made while `forgets` says so. */
function forgetPins(bodies: BodyArena, forgets: () => boolean): void {
  const { pin, unpin, free } = bodies;
  const place = new BodyPlace();
  /** A handle for each pin that counts. */
  const pinned: number[] = [];
  const forgotten = new Set<number>();
  bodies.pin = (handle) => {
    if (forgets()) {
      forgotten.add(handle);
      return;
    }
    pinned.push(handle);
    pin.call(bodies, handle);
  };
  bodies.unpin = (handle) => {
    const at = pinned.indexOf(handle);
    if (at < 0) return;
    pinned.splice(at, 1);
    unpin.call(bodies, handle);
  };
  // Its bytes change at once, as they would with the next body in its place.
  bodies.free = (handle) => {
    if (!pinned.includes(handle) && forgotten.delete(handle)) {
      bodies.locate(handle, 0, 1, place);
      place.bytes[place.at]! ^= 0xff;
    }
    free.call(bodies, handle);
  };
}

export const PLANTED_BUGS: readonly PlantedBug[] = [
  plantedIn(
    "a thread announces its sleep after it has looked for work",
    (settings) => new LateAnnouncement(settings),
  ),
  plantedIn("a ring of a doorbell gets lost now and then", (settings) => new LostRing(settings)),
  planted("a claim always succeeds", ({ shards }) => {
    for (const core of shards) {
      const claim = core.claim.bind(core);
      core.claim = (session) => claim(session) || true;
    }
  }),
  planted("a waiter is claimed and removed, but not served", ({ shards }) => {
    for (const core of shards) {
      const claim = core.claim.bind(core);
      const isForgotten = everyNth(3);
      core.claim = (session) => claim(session) && !isForgotten();
    }
  }),
  planted("an acceptor answers without claiming the wait", ({ acceptors }) => {
    for (const { claims } of acceptors) claims.claim = (slot, number) => claims.isOpen(slot, number);
  }),
  planted("a take ignores its bound", ({ shards }) => {
    for (const { engine } of shards) {
      const take = engine.takeUpTo.bind(engine);
      engine.takeUpTo = (session, _pri, _id, nowMs) =>
        take(session, 0xffffffff, Number.POSITIVE_INFINITY, nowMs);
    }
  }),
  planted("a reply goes to the wrong slot", ({ shards }) => {
    for (const port of shards.flatMap((core) => core.ports)) {
      const beginReply = port.beginReply.bind(port);
      const isWrong = everyNth(30);
      port.beginReply = (flags, slot, ...rest) => {
        const wrong = slot > 0 && isWrong();
        beginReply(flags, wrong ? slot - 1 : slot, ...rest);
      };
    }
  }),
  planted("a StopWait is lost", ({ shards }) => {
    for (const { engine } of shards) engine.stopSharedWait = () => {};
  }),
  planted("a WaitDue is lost", ({ shards }) => {
    for (const core of shards) core.waitDue = () => {};
  }),
  planted("a half-close does not reach the engine", ({ shards }) => {
    for (const { engine } of shards) engine.halfClose = () => {};
  }),
  planted("a close forgets the jobs held", ({ shards }) => {
    for (const { engine } of shards) {
      const close = engine.closeSession.bind(engine);
      engine.closeSession = (session, nowMs) => {
        Object.defineProperty(session.heldInOrder, "first", { value: NO_SLOT });
        close(session, nowMs);
      };
    }
  }),
  planted("the end of a connection leaves before its shards know of it", ({ acceptors }) => {
    for (const core of acceptors) {
      onEnds(core, (connection) => {
        const flush = connection.flush.bind(connection);
        connection.flush = () => {
          const { closesLeft } = connection;
          connection.closesLeft = 0;
          flush();
          connection.closesLeft = closesLeft;
        };
        core.runQueues.markDirty(connection);
      });
    }
  }),
  planted("an end overtakes what its client has under way", ({ acceptors }) => {
    for (const core of acceptors) {
      const post = core.links.post.bind(core.links);
      core.links.post = (shard, message) => {
        if (message.op === RequestOp.Close) message.flags = 0;
        post(shard, message);
      };
    }
  }),
  planted("a connection is counted until its socket is closed", ({ acceptors }) => {
    for (const core of acceptors) {
      const disconnect = core.disconnect.bind(core);
      onEnds(core, () => {
        core.counters[Counter.Connections]! += 1;
      });
      core.disconnect = (connection) => {
        if (!connection.isDead) core.counters[Counter.Connections]! -= 1;
        disconnect(connection);
      };
    }
  }),
  planted("a failed socket is closed before its shards know of it", ({ acceptors }) => {
    for (const core of acceptors) {
      const disconnect = core.disconnect.bind(core);
      core.disconnect = (connection) => {
        disconnect(connection);
        connection.transport.destroy();
      };
    }
  }),
  planted("a job's TTR never ends after a touch", ({ shards }) => {
    for (const { engine } of shards) {
      const touch = engine.touch.bind(engine);
      engine.touch = (session, id, nowMs) => {
        const outcome = touch(session, id, nowMs);
        const slot = engine.find(id);
        if (slot >= 0 && outcome === 0) engine.jobs.pageOf(slot).deadlineAtMs[rowOf(slot)] = Number.MAX_VALUE;
        return outcome;
      };
    }
  }),
  planted("a kick goes on with delayed jobs", ({ shards }) => {
    for (const { engine } of shards) {
      const kick = engine.kick.bind(engine);
      engine.kick = (session, bound, nowMs) => {
        const kicked = kick(session, bound, nowMs);
        return kicked + kick(session, bound - kicked, nowMs);
      };
    }
  }),
  planted("a body is freed while it is sent", ({ shards }) => {
    for (const { bodies } of shards.map((core) => core.engine)) {
      const sizes = new Map<number, number>();
      const allocate = bodies.allocate.bind(bodies);
      const free = bodies.free.bind(bodies);
      bodies.pin = () => {};
      bodies.unpin = () => {};
      bodies.allocate = (bytes) => {
        const handle = allocate(bytes);
        sizes.set(handle, bytes);
        return handle;
      };
      // Its bytes change at once, as they would with the next body in its place.
      bodies.free = (handle) => {
        const bytes = sizes.get(handle) ?? 0;
        bodies.write(handle, 0, new Uint8Array(bytes).fill(0x3f), 0, bytes);
        free(handle);
      };
    }
  }),
  planted("a part of a body is copied from the wrong place", ({ acceptors }) => {
    onConnections(acceptors, ({ replies }) => {
      const appendBody = replies.appendBody.bind(replies);
      replies.appendBody = (bodies, handle, offset, length) => appendBody(bodies, handle, offset + 1, length);
    });
  }),
  planted("a body does not stay where a socket sends it from", ({ acceptors }) => {
    const patched = new Set<BodyArena>();
    let appends = false;
    onConnections(acceptors, ({ replies }) => {
      const appendBody = replies.appendBody.bind(replies);
      replies.appendBody = (bodies, ...rest) => {
        if (!patched.has(bodies)) forgetPins(bodies, () => appends);
        patched.add(bodies);
        appends = true;
        appendBody(bodies, ...rest);
        appends = false;
      };
    });
  }),
  planted("bytes that come into an arena are put behind their place", ({ acceptors }) => {
    onConnections(acceptors, (connection) => {
      const findRoom = connection.findBodyRoom.bind(connection);
      connection.findBodyRoom = (place) => {
        const found = findRoom(place);
        place.at++;
        return found;
      };
    });
  }),
  planted("of more than 40 commands behind a wait one is dropped", ({ acceptors }) => {
    for (const core of acceptors) {
      /** Commands behind a reserve that has not been answered, by the slot of their connection. */
      const behind = new Map<number, number>();
      onConnections([core], ({ slot, replies }) => {
        behind.delete(slot);
        const onReply = replies.onReply.bind(replies);
        replies.onReply = (...args) => {
          behind.delete(slot);
          onReply(...args);
        };
      });
      const write = core.links.write.bind(core.links);
      core.links.write = (shard, message) => {
        const { slot, op } = message;
        const count = behind.get(slot);
        if (count === 40) {
          behind.set(slot, 41);
          return true;
        }
        if (!write(shard, message)) return false;
        if (count !== undefined) behind.set(slot, count + 1);
        else if (op === Op.Reserve) behind.set(slot, 0);
        return true;
      };
    }
  }),
  planted("two jobs get the same id", ({ acceptors }) => {
    for (const core of acceptors) {
      const take = core.places.takeJobId.bind(core.places);
      const isTwice = everyNth(20);
      let last = 0;
      core.places.takeJobId = (shard) => {
        if (last === 0 || !isTwice()) last = take(shard);
        return last;
      };
    }
  }),
  planted("the directory names the wrong shard", ({ acceptors, shards }) => {
    for (const core of acceptors) {
      const find = core.places.shardOfJob.bind(core.places);
      const isWrong = everyNth(10);
      core.places.shardOfJob = (id) => (isWrong() ? (Math.max(0, find(id)) + 1) % shards.length : find(id));
    }
  }),
  planted("a thread sleeps for want of room and asks nobody to ring", ({ shards }) => {
    for (const core of shards) core.wantRoom = () => {};
  }),
  planted("an acceptor sleeps for want of room and asks nobody to ring", ({ acceptors }) => {
    for (const core of acceptors) core.wantRoom = () => {};
  }),
  planted("a long reply gets no credit", ({ acceptors }) => {
    for (const core of acceptors) {
      const post = core.links.post.bind(core.links);
      core.links.post = (shard, message) => {
        if (message.op !== RequestOp.Credit) post(shard, message);
      };
    }
  }),
  planted("a reply that goes around through a shard is not counted", ({ acceptors }) => {
    for (const core of acceptors) {
      const write = core.links.write.bind(core.links);
      core.links.write = (shard, message) => {
        if (message.op === RequestOp.Echo) message.counted = 0;
        return write(shard, message);
      };
    }
  }),
  planted(
    "a reserve over several shards that may not wait forgets the jobs that the client holds",
    ({ acceptors }) => {
      onConnections(acceptors, ({ replies }) => {
        const onSignal = replies.onSignal.bind(replies);
        replies.onSignal = (signal) => {
          const collects = signal.kind === ResponseKind.Candidate || signal.kind === ResponseKind.Absent;
          onSignal(collects ? { ...signal, soonestMs: Number.POSITIVE_INFINITY } : signal);
        };
      });
    },
  ),
  planted(
    "a StopWait goes only to shards with a larger number than the one that gave the job",
    ({ acceptors }) => {
      for (const core of acceptors) {
        let answering = 0;
        onConnections([core], ({ replies }) => {
          const onReply = replies.onReply.bind(replies);
          replies.onReply = (shard, ...rest) => {
            answering = shard;
            onReply(shard, ...rest);
            answering = 0;
          };
        });
        const post = core.links.post.bind(core.links);
        core.links.post = (shard, message) => {
          if (message.op !== RequestOp.StopWait || shard >= answering) post(shard, message);
        };
      }
    },
  ),
  planted("a client is refused before other acceptors have looked for the end of a holder", ({ shards }) => {
    for (const { engine } of shards) engine.hasReserved = () => false;
  }),
  planted("commands are published but not in their order", ({ acceptors }) => {
    for (const core of acceptors) {
      const write = core.links.write.bind(core.links);
      const isLate = everyNth(40);
      core.links.write = (shard, message) => {
        if (!isLate()) return write(shard, message);
        const copy = message.clone();
        copy.slot = message.slot;
        queueLater(() => core.links.post(shard, copy));
        return true;
      };
      // Held-back bytes leave with the next turn.
      const later: (() => void)[] = [];
      const queueLater = (send: () => void): void => void later.push(send);
      const takeAnswers = core.takeAnswers.bind(core);
      core.takeAnswers = (onWriterWaits) => {
        for (const send of later.splice(0)) send();
        return takeAnswers(onWriterWaits);
      };
    }
  }),
];
