// Bugs planted in schedules, which the campaign must find.

import type { Engine } from "../../../src/engine/engine.ts";
import { NO_ROW } from "../../../src/engine/policies/key-table.ts";
import { ClaimView, TransferMessage } from "../../../src/message/transfer.ts";
import type { ShardCore } from "../../../src/shard/shard-core.ts";
import type { InProcessServer } from "../server/in-process-server.ts";
import type { Plant } from "./schedule-campaign.ts";

const inEngines =
  (plant: (engine: Engine) => void): Plant =>
  ({ shards }: InProcessServer) => {
    for (const { engine } of shards) plant(engine);
  };

export const SCHEDULE_BUGS: Readonly<Record<string, Plant>> = {
  "a tick whose job is in the log is not recognized by its key": inEngines(({ policies }) => {
    policies.keys.rowFor = () => NO_ROW;
  }),
  "a tick is put before its schedule, but the schedule is not logged": inEngines(({ schedules }) => {
    const { sink } = schedules;
    schedules.sink = {
      scheduled: (schedule, isNew) => sink.scheduled(schedule, isNew),
      ticked() {},
      unscheduled: (id) => sink.unscheduled(id),
    };
  }),
  "a cron expression is read in UTC": inEngines(({ schedules }) => {
    const { next } = schedules;
    schedules.next = (timing, afterMs) => next({ ...timing, zone: "UTC" }, afterMs);
  }),
  "a schedule that moves gets a new id": inEngines(({ schedules }) => {
    const set = schedules.set.bind(schedules);
    schedules.set = (id, isNew, ...rest) =>
      isNew || schedules.table.get(rest[0].name) !== undefined
        ? set(id, isNew, ...rest)
        : set(schedules.takeJobId(), true, ...rest);
  }),
  "the shard that a schedule leaves does not freeze it, and keeps it": ({ shards }) => {
    for (const shard of shards) {
      const { claims } = shard.schedules;
      claims.ended = () => {};
      const { setTimer } = shard.engine.schedules.table;
      shard.engine.schedules.table.setTimer = function (schedule, retryAtMs) {
        schedule.freezers.clear();
        setTimer.call(this, schedule, retryAtMs);
      };
    }
  },
  "a pause is not logged": inEngines(({ schedules }) => {
    const pause = schedules.pause.bind(schedules);
    schedules.pause = (schedule) => {
      const { sink } = schedules;
      schedules.sink = { ...sink, ticked() {} };
      pause(schedule);
      schedules.sink = sink;
    };
  }),
  "an interval begins anew at each tick that is late": inEngines(({ schedules }) => {
    const firstTick = schedules.firstTick.bind(schedules);
    schedules.firstTick = (timing, anchorMs, afterMs) =>
      timing.everyMs > 0 && afterMs > anchorMs
        ? afterMs + timing.everyMs + 1
        : firstTick(timing, anchorMs, afterMs);
  }),
  "a tick with overlap=skip asks no other shard": inEngines(({ schedules }) => {
    schedules.askOthers = undefined;
  }),
  "a tick is skipped although no job of its schedule exists": inEngines(({ schedules }) => {
    const answered = schedules.answered.bind(schedules);
    schedules.answered = (schedule, _exists, ...now) => answered(schedule, true, ...now);
  }),
  "a skipped tick is not logged": inEngines(({ schedules }) => {
    const { sink, counts } = schedules;
    let skipped = 0;
    schedules.sink = {
      scheduled: (schedule, isNew) => sink.scheduled(schedule, isNew),
      ticked(schedule) {
        if (counts.skipped === skipped) sink.ticked(schedule);
        skipped = counts.skipped;
      },
      unscheduled: (id) => sink.unscheduled(id),
    };
  }),
  "ticks wait until a clock that went back is where it was": inEngines(({ schedules }) => {
    schedules.correct = () => {};
  }),
  "ticks come again after a clock was behind": inEngines(({ schedules }) => {
    schedules.endHold = () => {};
  }),
};

const inShards =
  (plant: (shard: ShardCore) => void): Plant =>
  ({ shards }: InProcessServer) => {
    for (const shard of shards) plant(shard);
  };

/** Bugs that show only if several clients change the same schedule. */
export const NAME_BUGS: Readonly<Record<string, Plant>> = {
  "a claim takes the version of its schedule when it begins": inShards(
    ({ engine, schedules: { claims } }) => {
      const set = engine.schedules.set.bind(engine.schedules);
      engine.schedules.set = (id, isNew, facts, progress, body) => {
        const version = claims.claimOf(facts.name)?.number ?? progress.version;
        return set(id, isNew, facts, { ...progress, version }, body);
      };
      const end = claims.end.bind(claims);
      claims.end = (claim, version) => end(claim, Math.min(version, claim.number));
    },
  ),
  "a shard tells a claim of a schedule that it has yielded to an earlier one": inShards((shard) => {
    const { claims } = shard.schedules;
    const take = claims.take.bind(claims);
    claims.take = (message, from, transfer, body) => {
      const isClaim = message === TransferMessage.ClaimName;
      const schedule = isClaim ? shard.engine.schedules.table.get(ClaimView.name(body)) : undefined;
      const before = [...(schedule?.freezers ?? [])];
      schedule?.freezers.clear();
      take(message, from, transfer, body);
      for (const [other, number] of before) schedule?.freezers.set(other, number);
    };
  }),
  "a shard keeps a schedule that another one has set": inShards(({ schedules: { claims } }) => {
    const end = claims.end.bind(claims);
    claims.end = (claim) => end(claim, 0);
  }),
};
