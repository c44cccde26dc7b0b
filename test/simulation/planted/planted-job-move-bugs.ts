// Bugs planted in the moves of jobs between shards, which the simulation must find.

import type { Engine } from "../../../src/engine/engine.ts";
import { stateBit } from "../../../src/engine/job-walk.ts";
import { Outcome } from "../../../src/engine/jobs/ends.ts";
import { JobState, NO_SLOT, rowOf } from "../../../src/engine/jobs/job-table.ts";
import { Travel } from "../../../src/engine/transfers.ts";
import { RequestOp } from "../../../src/message/request.ts";
import { packListedJobs } from "../../../src/message/response.ts";
import { TransferMessage } from "../../../src/message/transfer.ts";
import { JobCounter } from "../../../src/schema/job.ts";
import type { RecordLog } from "../../../src/shard/records/record-log.ts";
import type { InProcessServer } from "../server/in-process-server.ts";
import { everyNth, type PlantedBug } from "./planted-bug.ts";

function plantedInMoves(
  name: string,
  plant: (server: InProcessServer) => void,
  hasPolicies = false,
): PlantedBug {
  return { name, options: { plant, extensions: true, jobMoves: true, policies: hasPolicies } };
}

/** Breaks each engine. */
const plantedInEngine = (
  name: string,
  plant: (engine: Engine, records: RecordLog | undefined) => void,
  hasPolicies = false,
): PlantedBug =>
  plantedInMoves(
    name,
    ({ shards, records }) => {
      for (const [shard, { engine }] of shards.entries()) plant(engine, records[shard]);
    },
    hasPolicies,
  );

/** Some of what shards say to each other gets lost. */
const plantedOnTheWay = (name: string, isKept: (kind: TransferMessage) => boolean): PlantedBug =>
  plantedInMoves(name, ({ acceptors }) => {
    for (const core of acceptors) {
      const post = core.links.post.bind(core.links);
      core.links.post = (shard, message) => {
        if (message.op !== RequestOp.Carried) post(shard, message);
        else if (isKept(message.count as TransferMessage)) post(shard, message);
      };
    }
  });

/** Runs `run` with `put` in the place of what `target` has under a name. */
function without<Target extends object, Name extends keyof Target, Result>(
  target: Target,
  name: Name,
  put: Target[Name],
  run: () => Result,
): Result {
  const before = target[name];
  target[name] = put;
  try {
    return run();
  } finally {
    target[name] = before;
  }
}

export const PLANTED_JOB_MOVE_BUGS: readonly PlantedBug[] = [
  plantedInEngine("a job is lost between two shards", (engine) => {
    const { arrive } = engine.transfers;
    const isLost = everyNth(3);
    engine.transfers.arrive = (...args) => (isLost() ? Outcome.Done : arrive.apply(engine.transfers, args));
  }),
  plantedInEngine("a job that has moved stays where it was, too", (engine) => {
    engine.transfers.departed = (id, transfer, nowMs) => engine.transfers.stay(id, transfer, nowMs);
  }),
  plantedOnTheWay("word that jobs have arrived gets lost", (kind) => kind !== TransferMessage.Landed),
  plantedOnTheWay("a piece of a long job that moves gets lost", (kind) => kind !== TransferMessage.Piece),
  plantedOnTheWay("a long job that moves gets no credit", (kind) => kind !== TransferMessage.Credit),
  plantedInEngine("a job that has come is not logged where it is", (engine, records) => {
    const { arrive } = engine.transfers;
    engine.transfers.arrive = (...args) =>
      records === undefined
        ? arrive.apply(engine.transfers, args)
        : without(
            records,
            "updated",
            () => {},
            () => arrive.apply(engine.transfers, args),
          );
  }),
  plantedInEngine("a job that has left is logged as deleted", (engine, records) => {
    const { departed } = engine.transfers;
    engine.transfers.departed = (id, ...rest) => {
      const before = engine.find(id);
      departed.call(engine.transfers, id, ...rest);
      if (before !== NO_SLOT && engine.find(id) === NO_SLOT) records?.deleted(id);
    };
  }),
  plantedInMoves("a transfer overtakes the records of its shard", ({ acceptors }) => {
    for (const core of acceptors) core.log.isWritten = () => true;
  }),
  plantedInMoves("MOVED is said before the record of the other shard is durable", ({ shards, records }) => {
    for (const [shard, { ports }] of shards.entries())
      for (const port of ports) {
        const carry = port.beginCarry.bind(port);
        port.beginCarry = (kind, to, number, bytes, durable, recordNumber) => {
          const isEarly = records[shard] !== undefined && kind === TransferMessage.Landed;
          carry(kind, to, number, bytes, durable && !isEarly, isEarly ? 0 : recordNumber);
        };
      }
  }),
  plantedInEngine("a job that has come serves nobody", (engine) => {
    const { arrive } = engine.transfers;
    engine.transfers.arrive = (...args) =>
      without(
        engine.waiters,
        "longest",
        () => undefined,
        () => arrive.apply(engine.transfers, args),
      );
  }),
  plantedInEngine("a job that has come to a tube of the same shard serves nobody", (engine) => {
    const { move } = engine.changes;
    engine.changes.move = (...args) =>
      without(
        engine.waiters,
        "longest",
        () => undefined,
        () => move.apply(engine.changes, args),
      );
  }),
  plantedInEngine("a command by id does not wait for a job that is on its way", (engine) => {
    engine.transfers.isMoving = () => false;
  }),
  plantedInMoves("a job that moves while all shards are asked for it is not found", ({ acceptors }) => {
    for (const core of acceptors) core.places.jobEntry = () => 0;
  }),
  plantedInMoves("a command for a job that has moved is answered where it was", ({ shards }) => {
    for (const { replies } of shards) replies.mayBeElsewhere = () => false;
  }),
  plantedInEngine("a job that moves forgets how often it was reserved", (engine) => {
    const { arrive } = engine.transfers;
    engine.transfers.arrive = (job, ...rest) => {
      const counters = job.counters.with(JobCounter.reserves, 0);
      return arrive.call(engine.transfers, { ...job, counters }, ...rest);
    };
  }),
  plantedInEngine("a job that moves has another time to run", (engine) => {
    const { arrive } = engine.transfers;
    engine.transfers.arrive = (job, ...rest) =>
      arrive.call(engine.transfers, { ...job, ttrSeconds: job.ttrSeconds + 1 }, ...rest);
  }),
  plantedInEngine("a delayed job that moves begins its delay anew", (engine) => {
    const { arrive } = engine.transfers;
    engine.transfers.arrive = (job, body, attributes, arrival, nowMs) =>
      arrive.call(
        engine.transfers,
        { ...job, deadlineAtMs: nowMs + job.delaySeconds * 1000 },
        ...([body, attributes, arrival, nowMs] as const),
      );
  }),
  plantedInEngine("a job that moves has another body", (engine) => {
    const { arrive } = engine.transfers;
    engine.transfers.arrive = (job, body, ...rest) => {
      if (job.bodyBytes > 0) engine.bodies.write(body, 0, Buffer.from("#"), 0, 1);
      return arrive.call(engine.transfers, job, body, ...rest);
    };
  }),
  plantedInEngine("a job that has come is not counted", (engine) => {
    const { arrive } = engine.transfers;
    engine.transfers.arrive = (job, ...rest) => {
      const outcome = arrive.call(engine.transfers, job, ...rest);
      const tube = engine.tubes.get(job.tube);
      if (outcome === Outcome.Done && tube !== undefined) tube.counts.movedIn--;
      return outcome;
    };
  }),
  plantedInEngine("buried jobs come in another order", (engine) => {
    const { arrive } = engine.transfers;
    engine.transfers.arrive = (job, ...rest) => {
      const outcome = arrive.call(engine.transfers, job, ...rest);
      const tube = engine.tubes.get(job.tube);
      const slot = engine.find(job.id);
      if (tube !== undefined && tube.buriedJobs > 1 && slot !== NO_SLOT && tube.buried.first !== slot) {
        const first = tube.buried.first;
        tube.buried.remove(first);
        tube.buried.append(first);
      }
      return outcome;
    };
  }),
  plantedInEngine(
    "a job that moves forgets its unique key",
    ({ policies, store }) => {
      const { arrive } = store;
      store.arrive = (...args) =>
        without(
          policies.keys,
          "take",
          () => {},
          () => arrive.apply(store, args),
        );
    },
    true,
  ),
  plantedInEngine(
    "a key stays behind when its job has gone to another shard",
    (engine) => {
      const { departed } = engine.transfers;
      engine.transfers.departed = (...args) =>
        without(
          engine.policies.keys,
          "drop",
          () => {},
          () => departed.apply(engine.transfers, args),
        );
    },
    true,
  ),
  plantedInEngine(
    "a job comes to a tube that is full",
    (engine) => {
      const { arrive } = engine.transfers;
      engine.transfers.arrive = (...args) =>
        without(
          engine.policies,
          "isFull",
          () => false,
          () => arrive.apply(engine.transfers, args),
        );
    },
    true,
  ),
  plantedInEngine(
    "a job that is not taken is lost",
    (engine) => {
      engine.transfers.stay = (id, transfer, nowMs) => engine.transfers.departed(id, transfer, nowMs);
    },
    true,
  ),
  plantedInEngine(
    "a dead job that moves stays dead",
    ({ policies }) => {
      policies.deaths.forgetDeath = () => {};
    },
    true,
  ),
  plantedInEngine(
    "a job that moves forgets when it expires",
    (engine) => {
      const { arrive } = engine.transfers;
      engine.transfers.arrive = (job, ...rest) => {
        const outcome = arrive.call(engine.transfers, job, ...rest);
        const slot = engine.find(job.id);
        const { extras } = slot === NO_SLOT ? {} : engine.jobs.pageOf(slot);
        if (extras !== undefined) extras.expiresAtMs[rowOf(slot)] = 0;
        return outcome;
      };
    },
    true,
  ),
  plantedInEngine("a job that update-job sends to another shard keeps its priority", (engine) => {
    const { changedFacts } = engine.changes;
    engine.changes.changedFacts = (slot, ...rest) => ({
      ...changedFacts.call(engine.changes, slot, ...rest),
      pri: engine.jobs.pageOf(slot).pri[rowOf(slot)]!,
    });
  }),
  plantedInEngine("a job that its holder hands on to another shard is no release", (engine) => {
    const { changedFacts } = engine.changes;
    engine.changes.changedFacts = (slot, ...rest) => ({
      ...changedFacts.call(engine.changes, slot, ...rest),
      releases: engine.jobs.pageOf(slot).count(rowOf(slot), JobCounter.releases),
    });
  }),
  plantedInEngine(
    "a job that its holder hands on to another shard has lost an attempt",
    (engine) => {
      const { changedFacts } = engine.changes;
      engine.changes.changedFacts = (slot, ...rest) => ({
        ...changedFacts.call(engine.changes, slot, ...rest),
        attemptsBase: engine.jobs.pageOf(slot).extras!.attemptsBase[rowOf(slot)]!,
      });
    },
    true,
  ),
  plantedInEngine(
    "a job that its holder hands on, and that is refused, is nobody's",
    (engine) => {
      const { stay } = engine.transfers;
      engine.transfers.stay = (id, transfer, nowMs) => {
        stay.call(engine.transfers, id, transfer, nowMs);
        const slot = engine.find(id);
        if (slot === NO_SLOT || engine.jobs.pageOf(slot).state[rowOf(slot)] !== JobState.Reserved) return;
        const holder = engine.sessionAt(engine.jobs.pageOf(slot).holder[rowOf(slot)]!);
        engine.giveBackOne(holder!, id, nowMs);
      };
    },
    true,
  ),
  plantedInEngine(
    "a dead job does not leave for the dead-letter tube of another shard",
    ({ policies }) => {
      const take = policies.deaths.takeLeaving.bind(policies.deaths);
      policies.deaths.takeLeaving = () => {
        take();
        return [];
      };
    },
    true,
  ),
  plantedInEngine(
    "a dead job is refused by a tube that is full",
    (engine) => {
      const { arrive } = engine.transfers;
      engine.transfers.arrive = (job, body, attributes, arrival, nowMs) => {
        const there = engine.tubes.get(job.tube);
        const isFull = there !== undefined && engine.policies.isFull(there, job.bodyBytes);
        if (arrival.travel === Travel.Death && isFull) return Outcome.TubeFull;
        return arrive.call(engine.transfers, job, body, attributes, arrival, nowMs);
      };
    },
    true,
  ),
  plantedInEngine(
    "a dead job lives again where dead ones go",
    (engine) => {
      const { arrive } = engine.transfers;
      engine.transfers.arrive = (job, body, attributes, arrival, nowMs) =>
        arrive.call(engine.transfers, job, body, attributes, { ...arrival, travel: Travel.Move }, nowMs);
    },
    true,
  ),
  plantedInEngine(
    "bodies fill no tube",
    ({ policies }) => {
      policies.isFull = ({ policy, jobs }) => policy !== undefined && jobs >= policy.maxJobs;
    },
    true,
  ),
  plantedInEngine(
    "a tube that has room for a byte takes any body",
    ({ policies }) => {
      policies.isFull = ({ policy, jobs, bytes }) =>
        policy !== undefined && (jobs >= policy.maxJobs || bytes + 1 > policy.maxBytes);
    },
    true,
  ),
  plantedInMoves("a list of all jobs has those of one shard", ({ shards }) => {
    for (const { replies } of shards.slice(1)) {
      const gathered = replies.gatheredBytes.bind(replies);
      replies.gatheredBytes = (session) => gathered(session, packListedJobs(0, []));
    }
  }),
  plantedInMoves("a list of all jobs ends where all of its shards have rested", ({ shards }) => {
    for (const { replies } of shards) {
      const gathered = replies.gatheredBytes.bind(replies);
      replies.gatheredBytes = (session, bytes) => {
        new DataView(bytes.buffer, bytes.byteOffset).setFloat64(0, 0, true);
        gathered(session, bytes);
      };
    }
  }),
  plantedInEngine("a job on its way to another shard is not listed", (engine) => {
    const { walk } = engine;
    engine.walk = (filter, afterId) =>
      walk.call(engine, { ...filter, states: filter.states & ~stateBit(JobState.Moving) }, afterId);
  }),
];
