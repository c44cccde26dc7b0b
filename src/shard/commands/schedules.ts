// Commands about a schedule by its name, and lists of schedules.

import { assert } from "../../base/assert.ts";
import { asciiBytes, latin1 } from "../../base/bytes.ts";
import { Refusal, type Schedule } from "../../engine/schedules.ts";
import { RequestFlag } from "../../message/request.ts";
import { ResponseKind } from "../../message/response.ts";
import { OptionTag } from "../../protocol/option-rows.ts";
import { optionNumber, optionText } from "../../protocol/options.ts";
import { Reply, ReplyWord } from "../../protocol/reply.ts";
import type { Request, Span } from "../../protocol/request.ts";
import { scheduleListText } from "../../protocol/schedule-list.ts";
import { SCHEDULE_LIST_USUAL } from "../../protocol/schedule-options.ts";
import { inspectScheduleText, NextRuns, ScheduleListing } from "../schedules/schedule-listing.ts";
import type { ShardSession } from "../sessions/shard-session.ts";
import { AwaitJob } from "../sessions/sliced-commands.ts";
import type { CommandShard, ShardCommand } from "./command.ts";

/** Minimum cost of the search for the runs of inspect-schedule. Its time is charged, too. */
const RUNS_LOOKS = 5000;

/** `deny` answers that there is no such schedule here. */
type Act = (shard: CommandShard, session: ShardSession, schedule: Schedule, deny: () => void) => void;

/** Calls `act` when the schedule is not about to move, with undefined if it is not here. */
function withSchedule(
  shard: CommandShard,
  session: ShardSession,
  { body }: Request,
  act: (schedule: Schedule | undefined) => void,
): void {
  const { engine, slicedCommands } = shard;
  const { claims } = shard.schedules;
  const name = body.text;
  assert(name !== "", "a command on a schedule names it");
  const finish = (): void => {
    assert(claims.awaited(name) === undefined, "a command continues when its schedule is settled");
    act(engine.schedules.table.get(name));
  };
  if (claims.awaited(name) === undefined) finish();
  else slicedCommands.join(session, new AwaitJob(() => claims.awaited(name), finish));
}

const byName =
  (act: Act): ShardCommand =>
  (shard, session, request) => {
    const { replies } = shard;
    const isProbe = (request.flags & RequestFlag.Probe) !== 0;
    const deny = (): void => {
      if (isProbe) {
        replies.signal(session, ResponseKind.Absent);
        return;
      }
      // A delete that is not durable yet may have removed it.
      replies.dependOnAll();
      replies.fixed(session, Reply.notFound);
    };
    withSchedule(shard, session, request, (schedule) => {
      if (schedule === undefined) deny();
      else act(shard, session, schedule, deny);
    });
  };

export const locateSchedule: ShardCommand = (shard, session, request) =>
  withSchedule(shard, session, request, (schedule) => {
    const { replies } = shard;
    // A delete that is not durable yet may have removed it.
    if (schedule === undefined) replies.dependOnAll();
    replies.settled(session, schedule === undefined ? 0 : 1);
  });

export const deleteSchedule: ShardCommand = byName(({ engine, replies }, session, schedule) => {
  engine.schedules.delete(schedule);
  replies.fixed(session, Reply.deleted);
});

export const pauseSchedule: ShardCommand = byName(({ engine, replies }, session, schedule) => {
  engine.schedules.pause(schedule);
  // Another client may have paused it just now.
  replies.dependOnAll();
  replies.fixed(session, Reply.paused);
});

export const resumeSchedule: ShardCommand = byName((shard, session, schedule) => {
  shard.engine.schedules.resume(schedule, shard.schedules.wallMs());
  shard.replies.dependOnAll();
  shard.replies.fixed(session, Reply.resumed);
});

const REFUSALS: Readonly<Record<Refusal, Uint8Array>> = {
  [Refusal.None]: Reply.outOfMemory,
  [Refusal.TubeFull]: Reply.tubeFull,
  [Refusal.OutOfMemory]: Reply.outOfMemory,
  [Refusal.LogFull]: Reply.outOfMemory,
  [Refusal.Draining]: Reply.draining,
};

export const runSchedule: ShardCommand = byName(({ engine, replies, nowMs }, session, schedule) => {
  const outcome = engine.schedules.run(schedule, nowMs);
  if (typeof outcome === "number") replies.number(session, ReplyWord.inserted, outcome);
  else replies.fixed(session, REFUSALS[outcome.refusal]);
});

/** May take several turns. */
export const inspectSchedule: ShardCommand = byName((shard, session, { name }, deny) => {
  const { engine, replies, slicedCommands, nowMs } = shard;
  if (engine.schedules.table.get(name)?.facts.timing.everyMs === 0) engine.looks += RUNS_LOOKS;
  const runs = new NextRuns(engine.schedules, name, (schedule, found) => {
    if (schedule === undefined) deny();
    else replies.text(session, inspectScheduleText(engine, schedule, found));
  });
  slicedCommands.start(session, runs, nowMs);
});

/**
 * Lists this shard's schedules, or returns its part of a list over all shards. May take several
 * turns.
 */
export const listSchedules: ShardCommand = ({ engine, replies, slicedCommands, nowMs }, session, request) => {
  const { options, flags } = request;
  const listed = {
    after: textOf(options, OptionTag.AfterName) ?? "",
    tube: textOf(options, OptionTag.Tube),
    limit: optionNumber(options, OptionTag.Limit) ?? SCHEDULE_LIST_USUAL,
  };
  const isPart = (flags & RequestFlag.AckOnly) !== 0;
  const listing = new ScheduleListing(engine, session, listed, (page) => {
    if (isPart) replies.gatheredBytes(session, asciiBytes(JSON.stringify(page)));
    else replies.text(session, scheduleListText(page));
  });
  slicedCommands.start(session, listing, nowMs);
};

function textOf(options: Span, tag: OptionTag): string | undefined {
  const bytes = optionText(options, tag);
  return bytes === undefined ? undefined : latin1(bytes, 0, bytes.length);
}
