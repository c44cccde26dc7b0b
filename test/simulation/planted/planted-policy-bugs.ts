// Bugs planted in job options and tube settings, which the simulation must find.

import type { Engine } from "../../../src/engine/engine.ts";
import { Outcome } from "../../../src/engine/jobs/ends.ts";
import { NO_SLOT, rowOf } from "../../../src/engine/jobs/job-table.ts";
import { JobAttributes } from "../../../src/engine/jobs/new-job.ts";
import { NO_ROW } from "../../../src/engine/policies/key-table.ts";
import { NO_GROUP } from "../../../src/engine/queues/job-groups.ts";
import type { RateLimiter } from "../../../src/engine/tubes/rate-limiter.ts";
import type { Tube } from "../../../src/engine/tubes/tube.ts";
import { isWide, type TubePolicy } from "../../../src/engine/tubes/tube-settings.ts";
import { OnDuplicate } from "../../../src/protocol/option-rows.ts";
import type { InProcessServer } from "../server/in-process-server.ts";
import { inEachEngine, type PlantedBug } from "./planted-bug.ts";

function plantedInPolicies(name: string, plant: (server: InProcessServer) => void): PlantedBug {
  return { name, options: { plant, extensions: true, policies: true } };
}

const plantedInEngine = (name: string, plant: (engine: Engine) => void): PlantedBug =>
  plantedInPolicies(name, inEachEngine(plant));

/** Runs `run` while no waiter is found, so none is served. */
function unserved<Result>({ waiters }: Engine, run: () => Result): Result {
  const { longest } = waiters;
  waiters.longest = () => undefined;
  try {
    return run();
  } finally {
    waiters.longest = longest;
  }
}

/** Breaks the groups of each tube when they begin to be there. */
function onGroups(engine: Engine, plant: (groups: NonNullable<Tube["groups"]>) => void): void {
  const broken = new WeakSet<object>();
  const put = engine.put.bind(engine);
  engine.put = (...args) => {
    const outcome = put(...args);
    for (const { groups } of engine.tubes.values()) {
      if (groups === undefined || broken.has(groups)) continue;
      broken.add(groups);
      plant(groups);
    }
    return outcome;
  };
}

/** Breaks the limiter of each tube that has one, in the turn behind that in which it was made. */
function plantedInLimiters(
  name: string,
  plant: (limiter: RateLimiter, policy: TubePolicy) => void,
): PlantedBug {
  return plantedInEngine(name, (engine) => {
    const broken = new WeakSet<object>();
    const begin = engine.beginTurn.bind(engine);
    engine.beginTurn = () => {
      begin();
      for (const { limiter, policy } of engine.tubes.values()) {
        if (limiter === undefined || broken.has(limiter)) continue;
        broken.add(limiter);
        plant(limiter, policy!);
      }
    };
  });
}

/** Has an arena keep what `run` frees, if `keeps` says so of it. */
function freeless<Result>({ bodies }: Engine, keeps: (handle: number) => boolean, run: () => Result): Result {
  const { free } = bodies;
  bodies.free = (handle) => {
    if (!keeps(handle)) free.call(bodies, handle);
  };
  try {
    return run();
  } finally {
    bodies.free = free;
  }
}

/** Turns of a shard in which an answer reaches its client. */
const LATER_TURNS = 20;

export const PLANTED_POLICY_BUGS: readonly PlantedBug[] = [
  plantedInEngine("a job keeps only its last failure", ({ policies: { failures } }) => {
    const { add } = failures;
    failures.add = (slot, ...rest) => {
      const { of } = failures;
      failures.of = () => new Uint8Array(0);
      const isKept = add.call(failures, slot, ...rest);
      failures.of = of;
      return isKept;
    };
  }),
  plantedInEngine("a failure is not in the log", ({ policies: { failures } }) => {
    failures.write = () => {};
  }),
  plantedInEngine("the number of lost connections is not in the log", ({ jobs, policies: { failures } }) => {
    const { write } = failures;
    failures.write = (slot, writer, wallOffsetMs) => {
      const page = jobs.pageOf(slot);
      const { rareCounters } = page;
      page.rareCounters = undefined;
      write.call(failures, slot, writer, wallOffsetMs);
      page.rareCounters = rareCounters;
    };
  }),
  plantedInEngine("a job that has come from another shard has never failed", ({ policies: { failures } }) => {
    failures.restore = () => {};
  }),
  plantedInEngine("the body of a duplicate is never freed", (engine) => {
    const put = engine.put.bind(engine);
    engine.put = (session, job, body, ...rest) => {
      const outcome = put(session, job, body, ...rest);
      // As if it was never freed: the same bytes once more, without an owner.
      if (outcome === Outcome.Duplicate) engine.bodies.allocate(job.bodyBytes);
      return outcome;
    };
  }),
  plantedInEngine("the attributes of a job stay in the arena", (engine) => {
    const { attributes } = engine.policies;
    const free = attributes.free.bind(attributes);
    attributes.free = (extras, row) => {
      const kept = extras.attributes[row];
      freeless(
        engine,
        (handle) => handle === kept,
        () => free(extras, row),
      );
    };
  }),
  plantedInEngine("a key is kept after its job", ({ policies }) => {
    policies.keys.drop = () => {};
  }),
  plantedInEngine("a key is forgotten with its job, although it is to be remembered", ({ policies }) => {
    policies.keys.end = (slot) => {
      policies.keys.drop(slot);
      return false;
    };
  }),
  plantedInEngine("a job that dies frees its key, although it is to be remembered", ({ policies }) => {
    policies.keys.letGo = policies.keys.drop;
  }),
  plantedInEngine("a job that comes back does not get its key", ({ policies: { keys } }) => {
    const hold = keys.table.hold.bind(keys.table);
    const take = keys.take.bind(keys);
    keys.take = (slot, tube) => {
      keys.table.hold = () => {};
      take(slot, tube);
      keys.table.hold = hold;
    };
  }),
  plantedInEngine("a key that lasts until the first reservation lasts on", ({ policies }) => {
    policies.keys.reserved = () => {};
  }),
  plantedInEngine("a duplicate is named after the put that is refused", ({ policies }) => {
    const find = policies.keys.table.find.bind(policies.keys.table);
    policies.keys.table.find = (key) => {
      const row = find(key);
      if (row !== NO_ROW) policies.keys.table.idOf = () => 1;
      return row;
    };
  }),
  plantedInEngine("a job is given out when it should have expired", (engine) => {
    const put = engine.put.bind(engine);
    engine.put = (session, job, body, nowMs, tube, attributes) => {
      if (attributes === undefined || attributes.expiresAtMs === 0)
        return put(session, job, body, nowMs, tube, attributes);
      const { expiresAtMs } = attributes;
      attributes.expiresAtMs += 400;
      try {
        return put(session, job, body, nowMs, tube, attributes);
      } finally {
        attributes.expiresAtMs = expiresAtMs;
      }
    };
  }),
  plantedInEngine("jobs of a tube with a time to live have none", (engine) => {
    const { store } = engine;
    const begin = store.begin.bind(store);
    store.begin = (slot, tube, attributes, atMs) => {
      const { policy } = tube;
      tube.policy = undefined;
      begin(slot, tube, attributes ?? new JobAttributes(), atMs);
      tube.policy = policy;
    };
  }),
  plantedInEngine("attempts are not reset at a kick", ({ policies }) => {
    policies.kicked = () => {};
  }),
  plantedInEngine("a job that is given back through no fault of its own loses an attempt", ({ policies }) => {
    policies.excused = () => {};
  }),
  plantedInEngine("a job has one attempt more than it should", ({ policies }) => {
    const ended = policies.reservationEnded.bind(policies);
    policies.reservationEnded = (slot, tube, end, delayMs, nowMs) => {
      const { policy } = tube;
      if (policy === undefined || policy.maxAttempts === 0) return ended(slot, tube, end, delayMs, nowMs);
      tube.policy = { ...policy, maxAttempts: policy.maxAttempts + 1 };
      try {
        return ended(slot, tube, end, delayMs, nowMs);
      } finally {
        tube.policy = policy;
      }
    };
  }),
  plantedInEngine("a back-off is not spread", ({ policies }) => {
    const ended = policies.reservationEnded.bind(policies);
    policies.reservationEnded = (slot, tube, end, delayMs, nowMs) =>
      ended(slot, tube, end, delayMs === 0 ? (tube.policy?.backoffMs ?? 0) : delayMs, nowMs);
  }),
  plantedInEngine("a full tube takes one job more", ({ policies }) => {
    policies.isFull = ({ policy, jobs }) => policy !== undefined && jobs > policy.maxJobs;
  }),
  plantedInEngine("work of groups is not taken off at the end of a connection", (engine) => {
    const close = engine.closeSession.bind(engine);
    let closing = false;
    onGroups(engine, (groups) => {
      const unhold = groups.unhold.bind(groups);
      groups.unhold = (number, cost) => {
        if (!closing || number === NO_GROUP) unhold(number, cost);
      };
    });
    engine.closeSession = (session, nowMs) => {
      closing = true;
      close(session, nowMs);
      closing = false;
    };
  }),
  plantedInEngine("a group's turn is forgotten with its last job", (engine) => {
    onGroups(engine, (groups) => {
      const leave = groups.leave.bind(groups);
      groups.leave = (number) => {
        // Descriptions of a group are the group.
        const group = groups.describe(number) as unknown as { jobs: number; turn: number };
        if (group.jobs === 1) group.turn = 0;
        leave(number);
      };
    });
  }),
  plantedInEngine("weights of groups do not count", (engine) => {
    onGroups(engine, (groups) => {
      groups.weigh = () => {};
    });
  }),
  plantedInEngine("a group at its limit goes on", (engine) => {
    onGroups(engine, (groups) => {
      groups.limit();
      groups.limit = () => {};
    });
  }),
  plantedInEngine("a limiter that opens with a delete serves nobody", (engine) => {
    const remove = engine.delete.bind(engine);
    engine.delete = (...args) => unserved(engine, () => remove(...args));
  }),
  plantedInEngine("a limit that is taken away serves nobody", (engine) => {
    const apply = engine.applySettings.bind(engine);
    engine.applySettings = (...args) => unserved(engine, () => apply(...args));
  }),
  plantedInLimiters("a rate is ignored", (limiter) => {
    limiter.took = () => {};
  }),
  plantedInLimiters("nobody who waits is served when there is a token again", (limiter) => {
    limiter.tokenAtMs = () => Number.POSITIVE_INFINITY;
  }),
  plantedInLimiters("a token comes some milliseconds late", (limiter) => {
    const tokenAtMs = limiter.tokenAtMs.bind(limiter);
    limiter.tokenAtMs = (nowMs) => tokenAtMs(nowMs) + 5;
  }),
  plantedInLimiters("a bucket keeps twice as many tokens as it should", (limiter, policy) => {
    const set = limiter.set.bind(limiter);
    limiter.set = (values, nowMs) => set({ ...values, burst: 2 * values.burst }, nowMs);
    limiter.set(policy, 0);
  }),
  plantedInLimiters("a job that costs more than is left is given", (limiter) => {
    const isOpen = limiter.isOpen.bind(limiter);
    limiter.isOpen = (inWork, nowMs) => isOpen(inWork, nowMs);
  }),
  plantedInLimiters("a job takes one token, whatever it costs", (limiter) => {
    const took = limiter.took.bind(limiter);
    limiter.took = (nowMs) => took(nowMs);
  }),
  plantedInEngine("a turn of a group counts jobs, not what they cost", (engine) => {
    onGroups(engine, (groups) => {
      const hold = groups.hold.bind(groups);
      groups.hold = (number, cost) => {
        hold(number, 1);
        if (cost > 1) groups.holdOn(number, cost - 1);
      };
    });
  }),
  plantedInEngine("a job that a put replaces costs what it did", ({ policies: { attributes } }) => {
    const exchange = attributes.exchange.bind(attributes);
    attributes.exchange = (extras, row, ...rest) => {
      const cost = extras.extraCost[row]!;
      exchange(extras, row, ...rest);
      extras.extraCost[row] = cost;
    };
  }),
  plantedInEngine("the rate of a group is ignored", (engine) => {
    onGroups(engine, (groups) => {
      groups.took = () => {};
    });
  }),
  plantedInEngine("a group stays out of tokens until it changes", (engine) => {
    onGroups(engine, (groups) => {
      groups.refillNext = () => {};
      Object.defineProperty(groups, "nextAtMs", { value: Number.POSITIVE_INFINITY });
    });
  }),
  plantedInPolicies("a pattern reaches the first shard only", ({ shards }) => {
    for (const { tubeSetter, engine } of shards.slice(1)) {
      const change = tubeSetter.change.bind(tubeSetter);
      tubeSetter.change = (pattern, ...rest) =>
        isWide(pattern)
          ? engine.beginSetting(pattern, { ...engine.settings.get(pattern) })
          : change(pattern, ...rest);
    }
  }),
  plantedInEngine("tubes that are there do not get what is set", (engine) => {
    const begin = engine.beginSetting.bind(engine);
    engine.beginSetting = (pattern, values) => {
      const setting = begin(pattern, values);
      setting.step = () => true;
      return setting;
    };
  }),
  plantedInPolicies("SET is said before tubes have it", ({ shards }) => {
    for (const { slicedCommands } of shards) {
      const start = slicedCommands.start.bind(slicedCommands);
      slicedCommands.start = (session, move, nowMs) => {
        const { step, finish } = move;
        if (move.constructor.name === "SetMany") {
          finish.call(move);
          move.finish = () => {};
          let turns = 0;
          move.step = (jobsMax, atMs) => ++turns > LATER_TURNS && step.call(move, jobsMax, atMs);
        }
        start(session, move, nowMs);
      };
    }
  }),
  plantedInEngine("a job that a put replaces keeps its priority", (engine) => {
    const putAgain = engine.changes.putAgain.bind(engine.changes);
    engine.changes.putAgain = (id, job, ...rest) => {
      const slot = engine.find(id);
      const pri = slot === NO_SLOT ? job.pri : engine.jobs.pageOf(slot).pri[rowOf(slot)]!;
      return putAgain(id, { ...job, pri }, ...rest);
    };
  }),
  plantedInEngine("a put that is to debounce a job leaves it as it is", (engine) => {
    const putAgain = engine.changes.putAgain.bind(engine.changes);
    engine.changes.putAgain = (id, job, body, attributes, nowMs) =>
      attributes.onDuplicate === OnDuplicate.Debounce
        ? Outcome.Debounced
        : putAgain(id, job, body, attributes, nowMs);
  }),
];
