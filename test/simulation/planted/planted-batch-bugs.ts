// Bugs planted in batches, which the simulation must find.

import type { Signal } from "../../../src/acceptor/fanout/conversation.ts";
import type { Session } from "../../../src/engine/state/session.ts";
import { RequestOp } from "../../../src/message/request.ts";
import { CANDIDATE_BYTES, ResponseKind } from "../../../src/message/response.ts";
import { Span } from "../../../src/protocol/request.ts";
import type { InProcessServer } from "../server/in-process-server.ts";
import { type PlantedBug, planted } from "./planted-bug.ts";
import { onConnections } from "./planted-bugs.ts";

/** Found by commands of ours only. */
function plantedInBatches(name: string, plant: (server: InProcessServer) => void): PlantedBug {
  const { options } = planted(name, plant);
  return { name, options: { ...options, extensions: true } };
}

/**
 * Changes the entries of each list of candidates on its way to a connection: `change` gets each at
 * its offset.
 */
function changeCandidates(
  { acceptors }: InProcessServer,
  change: (list: DataView, at: number) => void,
): void {
  onConnections(acceptors, ({ replies }) => {
    const onSignal = replies.onSignal.bind(replies);
    replies.onSignal = (signal: Signal) => {
      if (signal.kind !== ResponseKind.Candidates) {
        onSignal(signal);
        return;
      }
      const payload = new Span();
      payload.copyOf(signal.payload);
      const list = new DataView(payload.bytes.buffer);
      for (let at = 8; at < list.byteLength; at += CANDIDATE_BYTES) change(list, at);
      onSignal({ ...signal, payload });
    };
  });
}

/** Found by batches that wait until they are full. */
function plantedInFills(name: string, plant: (server: InProcessServer) => void): PlantedBug {
  return { name, options: { ...plantedInBatches(name, plant).options, fills: true } };
}

/** Found by batches of one group. */
function plantedInGroups(name: string, plant: (server: InProcessServer) => void): PlantedBug {
  return { name, options: { ...plantedInBatches(name, plant).options, policies: true, oneGroups: true } };
}

export const PLANTED_BATCH_BUGS: readonly PlantedBug[] = [
  plantedInGroups("a batch of one group goes on into another", ({ shards }) => {
    for (const { batchReserves } of shards.map(({ engine }) => engine)) {
      const mix = ({ watches }: Session): void => {
        for (const { groups } of watches.keys()) if (groups !== undefined) groups.nextOf = () => groups.next;
      };
      const reserve = batchReserves.reserve.bind(batchReserves);
      batchReserves.reserve = (session, ...rest) => {
        mix(session);
        return reserve(session, ...rest);
      };
      const take = batchReserves.takeGroup.bind(batchReserves);
      batchReserves.takeGroup = (session, ...rest) => {
        mix(session);
        take(session, ...rest);
      };
    }
  }),
  plantedInGroups("a batch of one group goes on into another tube", ({ shards }) => {
    for (const { engine } of shards) {
      const reserve = engine.batchReserves.reserve.bind(engine.batchReserves);
      engine.batchReserves.reserve = (session, { jobsMax, bytesMax }, ...rest) =>
        reserve(session, { jobsMax, bytesMax }, ...rest);
    }
  }),
  plantedInGroups("a batch of one group over several shards goes on into another tube", ({ shards }) => {
    for (const { engine } of shards) {
      const { batchReserves } = engine;
      batchReserves.takeGroup = (session, listed, { jobsMax, bytesMax }, nowMs, into) => {
        if (batchReserves.take(session, [listed], true, nowMs, into) === 0) into.length = 0;
        else if (jobsMax > 1) {
          const more: number[] = [];
          batchReserves.reserve(session, { jobsMax: jobsMax - 1, bytesMax }, 0, nowMs, more);
          into.push(...more);
        }
      };
    }
  }),
  plantedInGroups("a batch of one group over several shards ends after its first job", ({ shards }) => {
    for (const { engine } of shards) {
      const take = engine.batchReserves.takeGroup.bind(engine.batchReserves);
      engine.batchReserves.takeGroup = (session, listed, limits, nowMs, into) => {
        take(session, listed, { ...limits, jobsMax: 1 }, nowMs, into);
      };
    }
  }),
  plantedInFills("a put between count and wait does not fill a batch", ({ shards }) => {
    for (const { engine } of shards) {
      const wait = engine.waitToFill.bind(engine);
      engine.waitToFill = (session, fillsAt, ...rest) =>
        wait(session, Math.max(fillsAt, engine.readyFor(session) + 1), ...rest);
    }
  }),
  plantedInFills("a batch that has its jobs holds up the others", ({ shards }) => {
    for (const { engine } of shards) {
      const stop = engine.stopSharedWait.bind(engine);
      engine.stopSharedWait = (session, nowMs) => {
        session.isTold = false;
        stop(session, nowMs);
      };
    }
  }),
  plantedInFills("a first job does not begin the linger", ({ shards }) => {
    for (const { engine } of shards) {
      const wait = engine.waitToFill.bind(engine);
      engine.waitToFill = (session, fillsAt, _lingerMs, timeoutAtMs, nowMs) =>
        wait(session, fillsAt, Number.POSITIVE_INFINITY, timeoutAtMs, nowMs);
    }
  }),
  plantedInBatches("a batch of one shard goes on behind a lost job", ({ shards }) => {
    for (const { engine } of shards) {
      const reserve = engine.batchReserves.reserve.bind(engine.batchReserves);
      engine.batchReserves.reserve = (session, limits, timeoutMs, nowMs, into) => {
        const count = reserve(session, limits, timeoutMs, nowMs, into);
        if (count <= 0 || count === limits.jobsMax) return count;
        const more: number[] = [];
        const added = reserve(session, { ...limits, jobsMax: 1 }, 0, nowMs, more);
        into.push(...more);
        return count + Math.max(0, added);
      };
    }
  }),
  plantedInBatches("a batch over several shards has a lost job among others", (server) => {
    changeCandidates(server, (list, at) =>
      list.setUint32(at + 12, list.getUint32(at + 12, true) & 0x7fffffff, true),
    );
    for (const { engine } of server.shards) {
      const take = engine.batchReserves.take.bind(engine.batchReserves);
      engine.batchReserves.take = (session, ids, _isAlone, nowMs, into) =>
        take(session, ids, true, nowMs, into);
    }
  }),
  plantedInBatches("a batch over several shards is not in the order of priorities", (server) => {
    changeCandidates(server, (list, at) => list.setUint32(at + 8, 0, true));
  }),
  plantedInBatches("a batch over several shards does not count the bytes of bodies", (server) => {
    changeCandidates(server, (list, at) => list.setUint32(at + 12, 0, true));
    for (const { engine } of server.shards) {
      const take = engine.batchReserves.take.bind(engine.batchReserves);
      engine.batchReserves.take = (session, jobs, isAlone, nowMs, into) => {
        const ofAnySize = jobs.map((job) => ({ ...job, bodyBytes: Number.POSITIVE_INFINITY }));
        return take(session, ofAnySize, isAlone, nowMs, into);
      };
    }
  }),
  plantedInBatches("an abort has the number of the next batch", ({ acceptors }) => {
    for (const core of acceptors) {
      const post = core.links.post.bind(core.links);
      core.links.post = (shard, message) => {
        if (message.op === RequestOp.Abort) message.waitNumber++;
        post(shard, message);
      };
    }
  }),
  plantedInBatches("an abort ends the wait that comes next", ({ shards }) => {
    for (const core of shards) {
      const reserve = core.reserve.bind(core);
      core.reserve = (session, timeoutMs) => {
        session.isAborted = (number) => number !== 0 && session.abortedTo !== 0;
        reserve(session, timeoutMs);
      };
    }
  }),
  plantedInBatches("an abort is answered although a job has just come", ({ shards }) => {
    for (const { engine } of shards) {
      const abort = engine.abortWait.bind(engine);
      engine.abortWait = (session, nowMs) => abort(session, nowMs) || true;
    }
  }),
  plantedInBatches("an abort over several shards does not claim the wait", ({ acceptors }) => {
    onConnections(acceptors, ({ replies }) => {
      replies.claimWait = () => true;
    });
  }),
  plantedInBatches("a composed reply does not wait for the records of its shards", ({ acceptors }) => {
    onConnections(acceptors, ({ replies }) => {
      replies.holdFor = () => {};
    });
  }),
  plantedInBatches("a composed reply waits for the record of one shard only", ({ acceptors }) => {
    onConnections(acceptors, ({ replies }) => {
      const holdFor = replies.holdFor.bind(replies);
      const finish = replies.finishConversation.bind(replies);
      let held = false;
      replies.holdFor = (shard, recordNumber) => {
        if (!held) holdFor(shard, recordNumber);
        held = true;
      };
      replies.finishConversation = (reply) => {
        held = false;
        finish(reply);
      };
    });
  }),
  plantedInBatches("a touch of all stops before the last", ({ shards }) => {
    for (const { engine } of shards) {
      const touch = engine.touchSome.bind(engine);
      engine.touchSome = (session, begins, jobsMax, nowMs) =>
        session.held.size < 2
          ? touch(session, begins, jobsMax, nowMs)
          : touch(session, begins, 1, nowMs) || true;
    }
  }),
  plantedInBatches("a delete-batch tells the results of one shard as those of another", ({ acceptors }) => {
    onConnections(acceptors, ({ replies }) => {
      const onSignal = replies.onSignal.bind(replies);
      replies.onSignal = (signal: Signal) => {
        const payload = new Span();
        payload.copyOf(signal.payload);
        if (signal.kind === ResponseKind.Ack) payload.bytes.fill(1, 8);
        onSignal({ ...signal, payload });
      };
    });
  }),
];
