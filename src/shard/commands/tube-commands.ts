// The commands on tubes. Each is a function; long ones run in slices.

import { assert } from "../../base/assert.ts";
import type { Engine } from "../../engine/engine.ts";
import { stateBit, type TubeClearing, TubeMoving } from "../../engine/job-walk.ts";
import { JobState } from "../../engine/jobs/job-table.ts";
import { Travel } from "../../engine/transfers.ts";
import type { SettingChange } from "../../engine/tubes/tube-table.ts";
import { RequestFlag, SetPartView } from "../../message/request.ts";
import { ResponseKind } from "../../message/response.ts";
import { OptionTag } from "../../protocol/option-rows.ts";
import { optionNumber } from "../../protocol/options.ts";
import { Reply, ReplyWord } from "../../protocol/reply.ts";
import { inspectSettingsText, inspectTubeText, statsTubeText } from "../sessions/job-text.ts";
import type { ReplyWriter } from "../sessions/replies.ts";
import type { ShardSession, SlicedCommand } from "../sessions/shard-session.ts";
import { settingsText } from "../sessions/tube-setter.ts";
import { FarMove, MoveMany } from "../transfer/far-moves.ts";
import { BarrierRounds, type ShardCommand } from "./command.ts";
import { jobFilterOf } from "./list-jobs.ts";

// A clear-tube of any number of jobs.

export class ClearMany implements SlicedCommand {
  readonly #engine: Engine;
  readonly #replies: ReplyWriter;
  readonly #session: ShardSession;
  readonly #clearing: TubeClearing;

  constructor(engine: Engine, replies: ReplyWriter, session: ShardSession, clearing: TubeClearing) {
    this.#engine = engine;
    this.#replies = replies;
    this.#session = session;
    this.#clearing = clearing;
  }

  get jobs(): number {
    return this.#clearing.work;
  }

  step(jobsMax: number, nowMs: number): boolean {
    return this.#engine.clear(this.#clearing, jobsMax, nowMs);
  }

  finish(): void {
    assert(this.#clearing.cleared >= 0, "jobs that were deleted are counted");
    // As with NOT_FOUND: another client may have deleted the others a moment ago.
    this.#replies.dependOnAll();
    this.#replies.number(this.#session, ReplyWord.cleared, this.#clearing.cleared);
  }
}

// A set-tube of any number of tubes.

class SetMany implements SlicedCommand {
  readonly #engine: Engine;
  readonly #setting: SettingChange;
  readonly #answer: () => void;

  /** `answer` is called when all matching tubes have the setting. */
  constructor(engine: Engine, setting: SettingChange, answer: () => void) {
    this.#engine = engine;
    this.#setting = setting;
    this.#answer = answer;
  }

  get jobs(): number {
    return this.#setting.work;
  }

  step(jobsMax: number, nowMs: number): boolean {
    this.#engine.runDue(nowMs);
    return this.#setting.step(jobsMax, nowMs);
  }

  finish(): void {
    this.#answer();
  }
}

// `pause-tube`: prevents reservations from a tube for a while.

export const pauseTube: ShardCommand = ({ engine, replies, nowMs }, session, { tube, delaySeconds }) => {
  const found = engine.pause(tube.text, delaySeconds, nowMs);
  replies.fixed(session, found ? Reply.paused : Reply.notFound);
};

// `set-tube`. A plain name takes effect at once. A pattern is sent to all shards first, and then
// once more to the shard that answers.

/** May take several turns. */
export const setTube: ShardCommand = (
  { engine, slicedCommands, replies, tubeSetter, nowMs },
  session,
  request,
) => {
  const { tube, options, flags } = request;
  const pattern = tube.text;
  const isPart = (flags & RequestFlag.AckOnly) !== 0;
  const answer = (taken: boolean): void => {
    if (isPart) {
      replies.signal(session, ResponseKind.Ack);
      return;
    }
    // An earlier message of this command may have made the change.
    replies.dependOnAll();
    replies.fixed(session, taken ? Reply.set : Reply.outOfMemory);
  };
  const change = isPart ? SetPartView.change(request) : 0;
  const replaced = tubeSetter.owns(pattern) ? settingsText(engine.settings.get(pattern) ?? {}) : "";
  const setting = options.length === 0 ? undefined : tubeSetter.change(pattern, options, change, nowMs);
  if (setting !== undefined && replaced !== "") replies.replaced(session, replaced);
  if (setting === undefined) answer(options.length === 0 && tubeSetter.mayHave(pattern));
  else slicedCommands.start(session, new SetMany(engine, setting, () => answer(true)), nowMs);
};

// `clear-tube`: deletes jobs of a tube.

/** May take several turns. */
export const clearTube: ShardCommand = ({ engine, replies, slicedCommands, nowMs }, session, request) => {
  engine.runDue(nowMs);
  const filter = jobFilterOf(request, USUAL_STATES, nowMs);
  const limit = optionNumber(request.options, OptionTag.Limit) ?? Number.POSITIVE_INFINITY;
  const clearing = engine.clearing(request.tube.text, filter, limit);
  slicedCommands.start(session, new ClearMany(engine, replies, session, clearing), nowMs);
};

// `move-jobs`: moves jobs to another tube, or dead jobs back to the tubes where they died.

const USUAL_STATES = stateBit(JobState.Ready) | stateBit(JobState.Delayed) | stateBit(JobState.Buried);
/** Moves each dead job to its tube of origin. */
const ORIGINS = "*";

/** May take several turns. */
export const moveJobs: ShardCommand = (shard, session, request) => {
  const { engine, replies, slicedCommands, transferSender, nowMs } = shard;
  engine.runDue(nowMs);
  const { tube, options } = request;
  const name = request.target.text;
  const target = name === ORIGINS ? "" : name;
  const walk = engine.walk(jobFilterOf(request, USUAL_STATES, nowMs), 0);
  const limit = optionNumber(options, OptionTag.Limit) ?? Number.POSITIVE_INFINITY;
  const asReady = optionNumber(options, OptionTag.As) !== undefined;
  const far = new FarMove(transferSender, Travel.Move);
  const moving = new TubeMoving(engine, tube.text, walk, far, { target, asReady, limit });
  slicedCommands.start(session, new MoveMany(engine, replies, session, moving, far), nowMs);
};

// `stats-tube`: returns the statistics of a tube.

const tellTubeStats: ShardCommand = ({ engine, replies, nowMs, quoteNames }, session, request) => {
  engine.runDue(nowMs);
  const tube = engine.findTube(request.tube.text);
  if (tube === undefined) replies.fixed(session, Reply.notFound);
  else replies.text(session, statsTubeText(engine, tube, nowMs, quoteNames));
};

/**
 * Runs a command about a tube after a read barrier. In a pipeline only the first asks for one: its
 * client has waited for nothing since.
 */
function afterReaders(command: ShardCommand): ShardCommand {
  return (shard, session, request) => {
    if ((request.flags & RequestFlag.First) === 0) command(shard, session, request);
    else shard.afterReading(session, request, BarrierRounds.Read, command);
  };
}

export const statsTube: ShardCommand = afterReaders(tellTubeStats);

// `inspect-tube`: returns the facts about a tube that stats-tube lacks.

const tellTube: ShardCommand = ({ engine, replies, nowMs }, session, request) => {
  engine.runDue(nowMs);
  const name = request.tube.text;
  const tube = engine.findTube(name);
  const policy = tube === undefined ? engine.settings.policyOf(name) : undefined;
  if (policy !== undefined) replies.text(session, inspectSettingsText(policy));
  else if (tube === undefined) replies.fixed(session, Reply.notFound);
  else replies.text(session, inspectTubeText(engine, tube, nowMs));
};

export const inspectTube: ShardCommand = afterReaders(tellTube);

// `list-tubes`: the tubes of this shard, for the acceptor that merges the lists of all.

const list: ShardCommand = ({ lists }, session) => lists.begin(session);

/** Sends this shard's part, in several turns. */
export const listTubes: ShardCommand = (shard, session, request) =>
  shard.afterReading(session, request, BarrierRounds.Read, list);
