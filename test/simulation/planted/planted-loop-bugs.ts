// Bugs planted in the loops' rules for publishing, ringing and falling asleep, which the simulation
// must find.

import type { Doorbell } from "../../../src/ring/doorbell.ts";
import { DeferredMessages, type ShardSession } from "../../../src/shard/sessions/shard-session.ts";
import { InProcessServer } from "../server/in-process-server.ts";
import { everyNth, type PlantedBug, planted, plantedIn } from "./planted-bug.ts";

/** Has `look` find nothing once more after `announce` was called, until `again` is. */
function blind<Core extends object>(
  core: Core,
  announce: keyof Core,
  look: keyof Core,
  again: keyof Core,
): void {
  let announced = false;
  before(core, announce, () => {
    announced = true;
  });
  before(core, again, () => {
    announced = false;
  });
  const { get } = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(core), look)!;
  Object.defineProperty(core, look, { get: () => !announced && get!.call(core) });
}

/** Calls `act` before each call of a method. */
function before<Core extends object>(core: Core, method: keyof Core, act: () => void): void {
  const call = (core[method] as (...args: unknown[]) => unknown).bind(core);
  Object.assign(core, {
    [method]: (...args: unknown[]) => {
      act();
      return call(...args);
    },
  });
}

/** Hosts that have both roles do not hear each other. */
class ThreadsOutOfHearing extends InProcessServer {
  override createBell(from: number, to: number): Doorbell {
    const { threads } = this.topology;
    const hasBoth = (thread: number): boolean =>
      threads[thread] !== undefined && Object.values(threads[thread]).every((roles) => roles.length > 0);
    const bell = super.createBell(from, to);
    if (from !== to && hasBoth(from) && hasBoth(to)) bell.ring = () => false;
    return bell;
  }
}

/** Swaps the first two messages that wait for a connection's turn. */
function swapFirst(session: ShardSession): void {
  const { deferred } = session;
  if (deferred === undefined) return;
  const swapped = new DeferredMessages();
  const first = deferred.shift();
  if (!deferred.isEmpty) swapped.push(deferred, deferred.shift());
  swapped.push(deferred, first);
  while (!deferred.isEmpty) swapped.push(deferred, deferred.shift());
  session.deferred = swapped;
}

export const PLANTED_LOOP_BUGS: readonly PlantedBug[] = [
  planted("a shard does not look once more after it has announced its sleep", ({ shards }) => {
    for (const core of shards) blind(core, "wantRoom", "hasWork", "step");
  }),
  planted("a thread does not wake for what its shards have due", ({ loops }) => {
    for (const loop of loops)
      Object.defineProperty(loop, "wakeAtMs", { get: () => Number.POSITIVE_INFINITY, set() {} });
  }),
  plantedIn("a thread does not ring another", (settings) => new ThreadsOutOfHearing(settings)),
  planted("of the acceptors of a thread only the first is asked whether there is work", (server) => {
    for (const { acceptors } of server.topology.threads) {
      for (const acceptor of acceptors.slice(1)) {
        for (const question of ["hasAnswers", "hasWork", "hasDurable"])
          Object.defineProperty(server.acceptors[acceptor], question, { get: () => false });
      }
    }
  }),
  planted("an acceptor does not look for answers once more after it has announced its sleep", (server) => {
    for (const core of server.acceptors) blind(core, "wantRoom", "hasAnswers", "publish");
  }),
  planted("an acceptor does not look at the log once more after it has announced its sleep", (server) => {
    for (const core of server.acceptors) blind(core, "wantRoom", "hasDurable", "publish");
  }),
  planted("an acceptor does not look for room before it sleeps", ({ acceptors }) => {
    for (const core of acceptors) Object.defineProperty(core, "hasRoomAgain", { get: () => false });
  }),
  planted("the log does not look at its rings once more after it has announced its sleep", ({ binlog }) => {
    for (const ring of binlog?.rings ?? []) Object.defineProperty(ring, "hasMessage", { get: () => false });
  }),
  planted("an acceptor sleeps on commands that it has not published", ({ acceptors }) => {
    for (const core of acceptors) {
      const publish = core.publish.bind(core);
      Object.defineProperty(core.links, "hasUnpublished", { get: () => false, set() {} });
      let flushed = false;
      before(core, "flush", () => {
        flushed = true;
      });
      core.publish = (onPublished) => {
        if (!flushed) publish(onPublished);
        flushed = false;
      };
    }
  }),
  planted("a connection that was set aside loses its turn", ({ shards }) => {
    const isLost = everyNth(3);
    for (const { aside } of shards) {
      const next = aside.next.bind(aside);
      aside.next = () => {
        const session = next();
        return session?.deferred !== undefined && isLost() ? next() : session;
      };
    }
  }),
  planted("the commands of a connection that was set aside are swapped", ({ shards }) => {
    for (const { aside } of shards) {
      const next = aside.next.bind(aside);
      aside.next = () => {
        const session = next();
        if (session !== undefined) swapFirst(session);
        return session;
      };
    }
  }),
  planted("a shard sleeps while connections that were set aside wait", ({ shards }) => {
    for (const { aside } of shards) Object.defineProperty(aside, "size", { get: () => 0, set() {} });
  }),
  planted("a shard rings no acceptor that waits for room", ({ shards }) => {
    for (const ring of shards.flatMap((core) => core.requests)) {
      const release = ring.release.bind(ring);
      ring.release = () => release() && false;
    }
  }),
  planted("an acceptor rings no shard that waits for room", ({ acceptors }) => {
    for (const ring of acceptors.flatMap((core) => core.links.responses)) {
      const release = ring.release.bind(ring);
      ring.release = () => release() && false;
    }
  }),
  planted("the log rings no shard that waits for room", ({ binlog }) => {
    for (const ring of binlog?.rings ?? []) {
      const release = ring.release.bind(ring);
      ring.release = () => release() && false;
    }
  }),
  planted("the log has room again and rings no shard", ({ binlog }) => {
    if (binlog === undefined) return;
    const publishState = binlog.publishState.bind(binlog);
    binlog.publishState = () => publishState() && false;
  }),
  planted("a shard in the middle of a command waits for room and asks nobody to ring", ({ records }) => {
    for (const { ring } of records) ring.wantRoom = () => {};
  }),
  planted("a shard in the middle of a command does not show the log what it has", ({ records }) => {
    for (const { ring } of records) {
      const claim = ring.claim.bind(ring);
      const publish = ring.publish.bind(ring);
      let isFull = false;
      ring.claim = (length) => {
        const offset = claim(length);
        isFull = offset < 0;
        return offset;
      };
      ring.publish = () => !isFull && publish();
    }
  }),
];
