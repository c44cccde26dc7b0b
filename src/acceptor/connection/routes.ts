// The routes of commands: each function sends a command to the shards concerned, answers it, or
// begins a conversation. It returns false if the command has to wait its turn.

import { ASTERISK } from "../../base/ascii.ts";
import { assert } from "../../base/assert.ts";
import { latin1, shardOfTube } from "../../base/bytes.ts";
import type { EndReason } from "../../message/acceptor-counts.ts";
import {
  BATCH_DETAILS,
  BatchView,
  InspectJobView,
  OpenBatchView,
  RequestFlag,
  RequestOp,
  WatchView,
  WeightView,
} from "../../message/request.ts";
import { originsText } from "../../message/topology.ts";
import { type CommandParser, Syntax } from "../../protocol/command-parser.ts";
import { LEAVES_OUT_TEXTS, Op, ROUTE_OF, Route } from "../../protocol/commands.ts";
import { BATCH_BYTES_MAX, BATCH_JOBS_MAX, U32_MAX } from "../../protocol/limits.ts";
import { OptionTag } from "../../protocol/option-rows.ts";
import { optionNumber } from "../../protocol/options.ts";
import {
  Reply,
  textReply,
  touchedAllReply,
  unknownOptionReply,
  usingReply,
  watchingReply,
} from "../../protocol/reply.ts";
import { type Request, ReserveOrder } from "../../protocol/request.ts";
import { isEveryTube } from "../../protocol/tube-name.ts";
import { UNKNOWN_SHARD } from "../../ring/shared-words.ts";
import { AwaitAcks, MoveUse, SetPattern } from "../fanout/await-acks.ts";
import { BatchFill, type FillTerms } from "../fanout/batch-fill.ts";
import { DeleteBatch, onlyShardOf } from "../fanout/delete-batch.ts";
import { FindSchedule } from "../fanout/find-job.ts";
import { type GatheredList, ListAllJobs, ListSchedules } from "../fanout/gathered-list.ts";
import { ListTubes } from "../fanout/list-tubes.ts";
import { InspectWatched, ListWatched } from "../fanout/list-watched.ts";
import { PickBatch } from "../fanout/pick-batch.ts";
import { type Picker, PickInTurn, PickOne, SharedReserve } from "../fanout/shared-reserve.ts";
import type { ClientState } from "../migration/client-state.ts";
import { extensionsText } from "../state/stats-text.ts";
import { TubeRef, WatchOrder } from "../state/watch-list.ts";
import type { AcceptorState } from "./acceptor-state.ts";
import type { Replies } from "./replies.ts";

// A connection, as the routes see it.

export interface RoutedConnection {
  readonly acceptor: AcceptorState;
  readonly client: ClientState;
  readonly replies: Replies;
  /** Takes the line of a put. Returns false if it has to wait its turn. */
  beginPut(request: Request): boolean;
  /** Drops the body that follows and answers with `reply`. */
  dropBody(bodyBytes: number, reply: Uint8Array): void;
  /** Ends the connection: it takes no more commands. */
  end(reason: EndReason): true;
}

// Batches of jobs: reserve-batch, which the client's next byte may abort, and delete-batch.

/** Bytes of a redirected delete-batch besides the ids and one byte for each. */
const DELETE_BATCH_ROOM = 64;

/**
 * Moves the options of a reserve-batch into the fields that its shard reads. Returns whether the
 * client may abort the wait.
 */
function readBatchOptions(request: Request): boolean {
  const { options } = request;
  const bytes = optionNumber(options, OptionTag.Bytes) ?? BATCH_BYTES_MAX;
  BatchView.limitBytes(request, Math.min(bytes, BATCH_BYTES_MAX));
  request.flags =
    RequestFlag.Batch |
    (optionNumber(options, OptionTag.OneGroup) === undefined ? 0 : RequestFlag.OneGroup) |
    (optionNumber(options, OptionTag.Tubes) === undefined ? 0 : RequestFlag.Tubes) |
    (optionNumber(options, OptionTag.WithMeta) === undefined ? 0 : RequestFlag.Meta);
  const mayAbort = optionNumber(options, OptionTag.Abort) !== undefined;
  options.clear();
  return mayAbort;
}

/** Returns what a reserve-batch waits for, if that is more than one job. */
function readFill({ options, count, timeoutMs }: Request): FillTerms | undefined {
  const lingerMs = optionNumber(options, OptionTag.Linger);
  const min = optionNumber(options, OptionTag.Min) ?? (lingerMs === undefined ? 1 : BATCH_JOBS_MAX);
  if (min === 1 || count === 1 || timeoutMs <= 0) return undefined;
  return { min: Math.min(min, count), lingerMs: lingerMs ?? Number.POSITIVE_INFINITY };
}

/** Notes that the client's next byte aborts the batch that was just sent. */
function beginAbortable(client: ClientState, replies: Replies): void {
  replies.abortable = client.nextBatchNumber;
  client.nextBatchNumber = (client.nextBatchNumber % U32_MAX) + 1;
}

/** Aborts the wait of an abortable batch, because the client has sent more bytes. */
export function abortBatch({ acceptor, replies }: RoutedConnection): void {
  const number = replies.abortable;
  if (number === 0) return;
  replies.abortable = 0;
  // An earlier command may be redirected while the batch waits for its turn.
  if (replies.conversation === undefined || replies.isRedirected) {
    const abort = replies.message(RequestOp.Abort);
    BatchView.setNumber(abort, number);
    replies.post(replies.shard, abort);
    acceptor.pendingReplies.expect(replies);
  } else replies.conversation.onInput?.();
}

/** Returns the picker of a reserve-batch over several shards. */
function batchPicker(
  { acceptor, client, replies }: RoutedConnection,
  request: Request,
  terms: FillTerms | undefined,
  shards: readonly number[],
): PickBatch {
  const watched = shards.filter((shard) => client.watched.watches(shard));
  const limits = {
    jobsMax: BatchView.jobsMax(request),
    bytesMax: BatchView.bytesMax(request),
    details: request.flags & BATCH_DETAILS,
    oneGroup: request.flags & RequestFlag.OneGroup,
    fill: terms === undefined ? undefined : new BatchFill(terms, watched),
  };
  return new PickBatch(replies, limits, acceptor.listReplies, acceptor.gatherBudget, client.order);
}

/** Routes a delete-batch: to the shard of all its jobs or, with a conversation, to several. */
function deleteBatch({ acceptor, replies }: RoutedConnection, request: Request): boolean {
  const { links, places } = acceptor;
  const { op, ids } = request;
  // If the shard lacks some of the jobs, the batch comes back with one byte for each id.
  if (ids.length + request.count + DELETE_BATCH_ROOM <= links.payloadBytesMax) {
    const shard = onlyShardOf(ids, places);
    if (shard !== UNKNOWN_SHARD)
      return replies.mayCarry(shard, ids.length) && replies.sendCounted(shard, request);
  }
  if (!replies.isIdle) return false;
  replies.count(op);
  return replies.begin(new DeleteBatch(replies, places, ids));
}

// The tubes that a connection uses and watches, their weights, and the order of its reserves.

function changeTubes(connection: RoutedConnection, request: Request): boolean {
  if (request.op === Op.Use) return use(connection, request);
  if (request.op === Op.Watch) return watch(connection, request);
  if (request.op === Op.ReserveOrder) return setOrder(connection, request);
  return ignore(connection, request);
}

function use({ acceptor, client, replies }: RoutedConnection, request: Request): boolean {
  const { bytes, start, end } = request.tube;
  const { used } = client;
  if (used.is(bytes, start, end)) return replies.answer(Op.Use, usingReply(used.name));
  const tube = new TubeRef(latin1(bytes, start, end), acceptor.shards);
  if (tube.shard === used.shard) {
    if (!replies.sendCounted(tube.shard, request)) return false;
  } else {
    if (!replies.isIdle) return false;
    replies.begin(new MoveUse(replies, used, tube));
  }
  client.used = tube;
  return true;
}

function watch({ acceptor, client, replies }: RoutedConnection, request: Request): boolean {
  const { watched } = client;
  const { bytes, start, end } = request.tube;
  const weight = readWeight(request);
  const position = watched.find(bytes, start, end);
  if (position >= 0 && weight === 0) return replies.answer(Op.Watch, watchingReply(watched.size));
  const known = watched.tubes[position];
  const tube = known ?? new TubeRef(latin1(bytes, start, end), acceptor.shards);
  WatchView.fill(request, watched.size + (known === undefined ? 1 : 0));
  if (!replies.sendCounted(tube.shard, request)) return false;
  if (known === undefined) watched.add(tube);
  if (weight > 0) noteWeight(client, tube.name, weight);
  return true;
}

function ignore({ client, replies }: RoutedConnection, request: Request): boolean {
  const { watched } = client;
  const { bytes, start, end } = request.tube;
  const position = watched.find(bytes, start, end);
  if (position < 0) return replies.answer(Op.Ignore, watchingReply(watched.size));
  if (watched.size === 1) return replies.answer(Op.Ignore, Reply.notIgnored);
  WatchView.fill(request, watched.size - 1);
  const tube = watched.tubes[position]!;
  if (!replies.sendCounted(tube.shard, request)) return false;
  client.order?.forget(tube.name);
  watched.removeAt(position);
  return true;
}

/** Moves the weight of a watch from its options to the field that the shard reads; 0 for none. */
function readWeight(request: Request): number {
  const { options } = request;
  if (options.length === 0) return 0;
  const weight = optionNumber(options, OptionTag.Weight) ?? 0;
  options.clear();
  WeightView.fill(request, weight);
  return weight;
}

function noteWeight(client: ClientState, tube: string, weight: number): void {
  client.order ??= new WatchOrder();
  client.order.weigh(tube, weight);
}

/**
 * Routes a reserve-order: to all shards, because any of them may own a tube that the connection
 * watches later.
 */
function setOrder({ acceptor, client, replies }: RoutedConnection, request: Request): boolean {
  const { order } = request;
  if (!replies.isIdle) return false;
  replies.count(request.op);
  if (order !== ReserveOrder.Strict) client.order ??= new WatchOrder();
  client.order?.begin(order);
  const message = (): Request => {
    const each = replies.message(Op.ReserveOrder);
    each.order = order;
    return each;
  };
  const answer = (): void => replies.finishConversation(Reply.set);
  return replies.begin(new AwaitAcks(replies, Array(acceptor.shards).keys(), message, answer));
}

type CommandRoute = (connection: RoutedConnection, request: Request) => boolean;

/** The function of each Route. */
export const ROUTES: readonly CommandRoute[] = Object.values({
  [Route.Put]: (connection, request) => connection.beginPut(request),
  [Route.Reserve]: reserve,
  [Route.Job]: byId,
  [Route.UsedTube]: ({ client, replies }, request) => replies.sendCounted(client.used.shard, request),
  [Route.NamedTube]: ({ replies, acceptor }, request) =>
    replies.sendCounted(namedShard(acceptor.shards, request), request),
  [Route.NamedTubes]: listJobs,
  [Route.TubeSet]: changeTubes,
  [Route.Report]: report,
  [Route.Pattern]: setTubes,
  [Route.Jobs]: deleteBatch,
  [Route.Held]: touchAll,
  [Route.Name]: nameClient,
  [Route.Schedule]: bySchedule,
  [Route.Schedules]: listSchedules,
  [Route.Batch]: ofBatch,
  [Route.Origins]: origins,
  [Route.End]: (connection) => connection.replies.isIdle && connection.end("quit"),
} satisfies Record<Route, CommandRoute>);

const namedShard = (shards: number, { tube }: Request): number =>
  shardOfTube(tube.bytes, tube.start, tube.end, shards);

/** Answers a line that is not a valid command. If a body follows the line, it is dropped first. */
export function refuse(connection: RoutedConnection, syntax: Syntax, request: Request): boolean {
  const { acceptor, replies } = connection;
  if (syntax === Syntax.Unknown) return replies.answer(0, Reply.unknownCommand);
  if (syntax === Syntax.BadFormat) return replies.answer(0, Reply.badFormat);
  if (syntax === Syntax.BadFormatCounted) return replies.answer(request.op, Reply.badFormat);
  const reply = refusal(syntax, acceptor.parser);
  if (ROUTE_OF[request.op] !== Route.Put) return replies.answer(0, reply);
  replies.count(request.op);
  connection.dropBody(request.bodyBytes, reply);
  return true;
}

function refusal(syntax: Syntax, { unknownOption }: CommandParser): Uint8Array {
  if (syntax === Syntax.TooBig) return Reply.jobTooBig;
  return syntax === Syntax.BadOption ? Reply.badFormat : unknownOptionReply(unknownOption);
}

// --- reserves ------------------------------------------------------------------------------------

function reserve(connection: RoutedConnection, request: Request): boolean {
  const { client, replies } = connection;
  if (request.op === Op.Reserve) request.timeoutMs = Number.POSITIVE_INFINITY;
  const isBatch = request.op === Op.ReserveBatch;
  const fill = isBatch && !replies.isHalfClosed ? readFill(request) : undefined;
  // A batch with timeout 0 has no wait to abort, whether or not the next bytes are there.
  const mayAbort = isBatch && readBatchOptions(request) && request.timeoutMs > 0;
  const shard = client.watched.onlyShard;
  // A shard would answer at once, before it learns that bytes after the batch abort it.
  const endsHere = mayAbort && replies.isHalfClosed;
  const alone =
    !endsHere &&
    fill === undefined &&
    client.watched.shardCount === 1 &&
    replies.holding.within(shard) &&
    !replies.mayHoldElsewhere;
  if (mayAbort && alone) BatchView.setNumber(request, client.nextBatchNumber);
  const taken = alone ? reserveAlone(connection, shard, request) : reserveShared(connection, request, fill);
  if (!taken) return false;
  replies.becomeWorker();
  if (mayAbort) beginAbortable(client, replies);
  return true;
}

/** Sends a reserve whose watched tubes and held jobs are all on one shard. */
function reserveAlone({ replies }: RoutedConnection, shard: number, request: Request): boolean {
  request.counted = request.op;
  if (request.op !== Op.ReserveBatch) request.op = Op.Reserve;
  if (replies.isHalfClosed) request.flags |= RequestFlag.NoWait;
  if (!replies.send(shard, request)) return false;
  replies.reservesUnderWay++;
  return true;
}

function reserveShared(connection: RoutedConnection, request: Request, fill: FillTerms | undefined): boolean {
  const { acceptor, client, replies } = connection;
  if (!replies.isIdle) return false;
  const { op, timeoutMs } = request;
  replies.count(op);
  const shards: number[] = [];
  for (let shard = 0; shard < acceptor.shards; shard++) {
    if (client.watched.watches(shard) || replies.holding.has(shard)) shards.push(shard);
  }
  const picker =
    op === Op.ReserveBatch ? batchPicker(connection, request, fill, shards) : singlePicker(connection);
  const waitMs = replies.isHalfClosed ? 0 : timeoutMs;
  return replies.begin(new SharedReserve(replies, shards, waitMs, picker));
}

function singlePicker({ client: { order }, replies }: RoutedConnection): Picker {
  return order?.decides === true ? new PickInTurn(replies, order) : new PickOne(replies);
}

// --- jobs by id ----------------------------------------------------------------------------------

function byId({ acceptor, client, replies }: RoutedConnection, request: Request): boolean {
  const { op, id } = request;
  if (LEAVES_OUT_TEXTS[op] === 1 && !client.seesTexts) InspectJobView.leaveOutTexts(request);
  const shard = acceptor.places.shardOfJob(id);
  if (shard !== UNKNOWN_SHARD) {
    if (!replies.sendCounted(shard, request)) return false;
    if (op === Op.ReserveJob && acceptor.shards > 1) replies.mayHoldElsewhere = true;
    return true;
  }
  if (!replies.isIdle) return false;
  replies.count(op);
  return replies.find(request.clone());
}

function touchAll({ acceptor, replies }: RoutedConnection, request: Request): boolean {
  const { holding } = replies;
  const held = holding.list(acceptor.shards);
  if (replies.mayHoldElsewhere) return false;
  // Commands in flight may bring more jobs of that shard.
  const shard = replies.underWay > 0 ? replies.shard : (held[0] ?? -1);
  if (shard < 0) return replies.answer(request.op, touchedAllReply(0));
  if (holding.within(shard)) return replies.sendCounted(shard, request);
  if (!replies.isIdle) return false;
  replies.count(request.op);
  const message = (): Request => {
    const each = replies.message(request.op);
    each.flags = RequestFlag.AckOnly;
    return each;
  };
  const answer = (touched: number): void => replies.finishConversation(touchedAllReply(touched));
  return replies.begin(new AwaitAcks(replies, held, message, answer));
}

// --- tubes ---------------------------------------------------------------------------------------

/** Routes a setting. A plain name concerns only its own shard, a pattern concerns all of them. */
function setTubes({ acceptor, replies }: RoutedConnection, request: Request): boolean {
  const { bytes, end } = request.tube;
  const { shards, places } = acceptor;
  const shard = namedShard(shards, request);
  if (shards === 1 || bytes[end - 1] !== ASTERISK) return replies.sendCounted(shard, request);
  if (!replies.isIdle) return false;
  replies.count(request.op);
  return replies.begin(new SetPattern(replies, shards, shard, request, places.takeSequence()));
}

// --- batches -------------------------------------------------------------------------------------

/**
 * Sends a command to the home of a batch. A new batch takes its number from the job ids here, so
 * that the ids of later commands don't depend on when the shard executes it.
 */
function ofBatch({ acceptor, replies }: RoutedConnection, request: Request): boolean {
  const shard = request.op === Op.ListBatches ? 0 : namedShard(acceptor.shards, request);
  if (!replies.maySend(shard)) return false;
  if (request.op === Op.OpenBatch) OpenBatchView.fill(request, acceptor.places.takeJobId(shard));
  return replies.sendCounted(shard, request);
}

// --- lists and reports ---------------------------------------------------------------------------

/** Lists the jobs of one tube, or of all tubes on all shards. */
function listJobs(connection: RoutedConnection, request: Request): boolean {
  const { acceptor, replies } = connection;
  const { shards, places, listQueue } = acceptor;
  if (shards === 1 || !isEveryTube(request.tube))
    return replies.sendCounted(namedShard(shards, request), request);
  if (!replies.isIdle) return false;
  return beginList(connection, request, new ListAllJobs(replies, places, request, listQueue));
}

/** Begins a list over all shards, once it is its turn. */
function beginList({ acceptor, replies }: RoutedConnection, { op }: Request, list: GatheredList): boolean {
  replies.count(op);
  replies.begin(list);
  acceptor.listQueue.enter(list);
  return true;
}

/**
 * Sends a command about a schedule to the shard. If there are several, finds the schedule first.
 */
function bySchedule({ acceptor, replies }: RoutedConnection, request: Request): boolean {
  const { places, shards } = acceptor;
  if (shards === 1) return replies.sendCounted(0, request);
  if (!replies.isIdle) return false;
  replies.count(request.op);
  return replies.begin(new FindSchedule(replies, places, request.clone()));
}

function listSchedules(connection: RoutedConnection, request: Request): boolean {
  const { acceptor, replies } = connection;
  const { shards, places, listQueue } = acceptor;
  if (shards === 1) return replies.sendCounted(0, request);
  if (!replies.isIdle) return false;
  return beginList(connection, request, new ListSchedules(replies, places, request, listQueue));
}

function nameClient({ acceptor, client, replies }: RoutedConnection, { op, name }: Request): boolean {
  client.name = name.text;
  acceptor.nameWorker(replies.slot, client.name);
  return replies.answer(op, Reply.named);
}

function origins({ acceptor, replies }: RoutedConnection, { op }: Request): boolean {
  if (!replies.isIdle) return false;
  return replies.answer(op, textReply(originsText(acceptor.origins)));
}

function report({ acceptor, client, replies }: RoutedConnection, { op }: Request): boolean {
  if (op === Op.ListTubeUsed) return replies.answer(op, usingReply(client.used.name));
  if (!replies.isIdle) return false;
  const { shards, topology, tubeListings, listReplies, statsText } = acceptor;
  replies.count(op);
  if (op === Op.Stats || op === Op.Extensions) {
    // Every shard updates its counters first.
    const message = (): Request => replies.message(Op.Stats);
    const text = op === Op.Stats ? statsText : () => extensionsText(topology);
    const answer = (): void => replies.finishWithText(text());
    replies.begin(new AwaitAcks(replies, Array(shards).keys(), message, answer));
  } else if (op === Op.ListTubes) {
    const conversation = new ListTubes(replies, tubeListings, listReplies);
    replies.conversation = conversation;
    tubeListings.ask(conversation);
  } else {
    const { watched, order } = client;
    assert(op === Op.ListTubesWatched || op === Op.InspectWatched, "every report has a branch here");
    replies.conversation =
      op === Op.ListTubesWatched
        ? new ListWatched(replies, watched, listReplies)
        : new InspectWatched(replies, watched, order, listReplies);
  }
  return true;
}
