// `put` and `put-in-tube`: takes bodies into the arena, whole or in pieces, and stores each job
// when its last byte has arrived.

import { assert } from "../../base/assert.ts";
import { Outcome } from "../../engine/engine.ts";
import { EMPTY_BODY } from "../../engine/jobs/body-arena.ts";
import { JobAttributes, type NewJob } from "../../engine/jobs/new-job.ts";
import { handleOf, RequestFlag } from "../../message/request.ts";
import { ControlWord } from "../../message/topology.ts";
import { Attribute } from "../../protocol/job-attribute.ts";
import { type OnDuplicate, OptionTag } from "../../protocol/option-rows.ts";
import { nextOption, numberAt } from "../../protocol/options.ts";
import { Reply, ReplyWord } from "../../protocol/reply.ts";
import { type Request, Span } from "../../protocol/request.ts";
import type { ShardSession } from "../sessions/shard-session.ts";
import type { CommandShard, ShardCommand } from "./command.ts";

/** Replies by outcome to a put whose key is taken. */
const DUPLICATE_WORDS: Readonly<Record<number, Uint8Array>> = {
  [Outcome.Duplicate]: ReplyWord.duplicate,
  [Outcome.Kept]: ReplyWord.kept,
  [Outcome.Replaced]: ReplyWord.replaced,
  [Outcome.Escalated]: ReplyWord.escalated,
  [Outcome.Debounced]: ReplyWord.debounced,
};

/** Replies by outcome to a put that names a batch. */
const BATCH_REPLIES: Readonly<Record<number, Uint8Array>> = {
  [Outcome.NoBatch]: Reply.batchNotFound,
  [Outcome.BatchCommitted]: Reply.batchCommitted,
  [Outcome.BatchOrder]: Reply.batchOrder,
};

/** A power of two. */
const NAMES_KEPT = 64;

/**
 * Converts names in messages to strings. A cache of recent names avoids a new string for each
 * message.
 */
export class NameCache {
  readonly #kept: string[] = new Array<string>(NAMES_KEPT).fill("");

  /** Returns the bytes as a Latin-1 string. */
  textOf(name: Span): string {
    const { bytes, start, end } = name;
    const length = end - start;
    if (length === 0) return "";
    // Names of similar tubes usually differ in their length or their last bytes.
    const place = (bytes[end - 1]! + bytes[start + (length >> 1)]! * 7 + length * 31) & (NAMES_KEPT - 1);
    const kept = this.#kept[place]!;
    if (kept.length === length && isText(bytes, start, kept)) return kept;
    const text = name.text;
    this.#kept[place] = text;
    return text;
  }
}

function isText(bytes: Uint8Array, start: number, text: string): boolean {
  for (let i = 0; i < text.length; i++) if (bytes[start + i] !== text.charCodeAt(i)) return false;
  return true;
}

// The puts of all shards of a thread use these one after another, and so allocate nothing.
const scratch = new JobAttributes();
const span = new Span();
const tubeNames = new NameCache();
const batchNames = new NameCache();

/** Stores a job whose whole body is in the message. */
export const put: ShardCommand = (shard, session, request) => {
  const { bodies } = shard.engine;
  const { body, tube, options } = request;
  if (shard.controlWords.isSet(ControlWord.Draining)) {
    shard.replies.fixed(session, Reply.draining);
    return;
  }
  request.bodyBytes = body.end - body.start;
  let stored: number = EMPTY_BODY;
  let hasRoom = false;
  try {
    stored = bodies.allocate(request.bodyBytes);
    bodies.write(stored, 0, body.bytes, body.start, request.bodyBytes);
    hasRoom = bodies.limit.allows;
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
  }
  const name = tube.end === tube.start ? "" : tubeNames.textOf(tube);
  if (!hasRoom) {
    bodies.free(stored);
    refuseFull(shard, session, request, name, options);
    return;
  }
  store(shard, session, request, stored, name, options);
};

/** Stores a job whose body the acceptor has written to the arena. */
export const putStored: ShardCommand = (shard, session, request) => {
  assert(session.incoming === undefined, "a session sends one body at a time: no put in pieces is open");
  const body = handleOf(request.body);
  const name = tubeNames.textOf(request.tube);
  if ((request.flags & RequestFlag.NoRoom) !== 0) refuseFull(shard, session, request, name, request.options);
  else if (shard.controlWords.isSet(ControlWord.Draining)) {
    shard.engine.bodies.free(body);
    shard.replies.fixed(session, Reply.draining);
  } else store(shard, session, request, body, name, request.options);
};

/** Frees the body of a stored put that is not executed. */
export function dropStored({ engine }: CommandShard, request: Request): void {
  engine.bodies.free(handleOf(request.body));
}

/**
 * Starts a put whose body arrives in pieces. Its id stays invisible until the body is complete.
 */
export const putOpen: ShardCommand = (shard, session, request) => {
  assert(session.incoming === undefined, "a session sends one body at a time");
  const { id, pri, delaySeconds, delayMillis, ttrSeconds, bodyBytes, atMs } = request;
  assert(id > 0 && bodyBytes > 0, "a put in pieces has an id and a body");
  let body: number = EMPTY_BODY;
  let failed = false;
  try {
    body = shard.engine.bodies.allocate(bodyBytes);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    failed = true;
  }
  const job = { id, pri, delaySeconds, delayMillis, ttrSeconds, bodyBytes, atMs };
  const tube = tubeNames.textOf(request.tube);
  const options = new Span();
  options.copyOf(request.options);
  session.incoming = { job, tube, options, body, receivedBytes: 0, failed };
  putData(shard, session, request);
};

/**
 * Takes the next piece. If memory runs out, the rest is dropped as it arrives and the put is
 * refused at its end.
 */
export const putData: ShardCommand = ({ engine }, { incoming }, { body: piece }) => {
  assert(incoming !== undefined, "a piece belongs to a put that was opened");
  if (incoming.failed) return;
  try {
    engine.bodies.write(incoming.body, incoming.receivedBytes, piece.bytes, piece.start, piece.length);
    incoming.receivedBytes += piece.length;
    assert(incoming.receivedBytes <= incoming.job.bodyBytes, "a body has no more bytes than its put said");
    if (engine.bodies.limit.allows) return;
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
  }
  engine.bodies.free(incoming.body);
  incoming.body = EMPTY_BODY;
  incoming.failed = true;
};

/** Takes the last piece and completes the put, unless no CR LF followed the body. */
export const putEnd: ShardCommand = (shard, session, request) => {
  putData(shard, session, request);
  const { job, tube, options, body, failed, receivedBytes } = session.incoming!;
  const isBad = (request.flags & RequestFlag.BadBody) !== 0;
  const isDraining = shard.controlWords.isSet(ControlWord.Draining);
  if (isBad || failed || isDraining) {
    abandonPut(shard, session);
    if (isBad) shard.replies.fixed(session, Reply.expectedCrlf);
    else if (failed) refuseFull(shard, session, job, tube, options);
    else shard.replies.fixed(session, Reply.draining);
    return;
  }
  assert(receivedBytes === job.bodyBytes, "a put ends after the last byte of its body");
  session.incoming = undefined;
  store(shard, session, job, body, tube, options);
};

/** Frees a body that is still arriving. */
export function abandonPut({ engine }: CommandShard, session: ShardSession): void {
  if (session.incoming === undefined) return;
  engine.bodies.free(session.incoming.body);
  session.incoming = undefined;
}

/** Stores a job in the tube with this name, or for "" in the session's tube in use. */
function store(
  shard: CommandShard,
  session: ShardSession,
  job: NewJob,
  body: number,
  tube: string,
  options: Span,
): void {
  const { engine, nowMs } = shard;
  assert(job.id > 0, "a job that is stored has an id");
  if (options.end > options.start && options.bytes[options.start] === OptionTag.Schedule) {
    shard.schedules.set(session, job, body, tube, options);
    return;
  }
  const attributes = options.end === options.start ? undefined : attributesOf(shard, options, job);
  let outcome: Outcome;
  try {
    outcome = engine.put(session.engineSession, job, body, nowMs, tube, attributes);
    if (outcome === Outcome.Duplicate) {
      const id = engine.policies.duplicateOf;
      outcome = engine.changes.putAgain(id, job, body, attributes!, nowMs);
      replyToDuplicate(shard, session, outcome, id, tube);
      if (outcome !== Outcome.Replaced) engine.bodies.free(body);
      return;
    }
  } catch (error) {
    refuseForMemory(shard, session, body, error);
    return;
  }
  if (outcome === Outcome.Done) {
    shard.replies.number(session, ReplyWord.inserted, job.id);
    return;
  }
  engine.bodies.free(body);
  refuse(shard, session, outcome, tube);
}

/** Refuses a put that memory has no room for. A duplicate is told so: it stores nothing. */
function refuseFull(
  shard: CommandShard,
  session: ShardSession,
  job: NewJob,
  tube: string,
  options: Span,
): void {
  const { engine, nowMs } = shard;
  let outcome: Outcome = Outcome.NoRoom;
  if (options.length > 0 && options.bytes[options.start] !== OptionTag.Schedule) {
    if (shard.controlWords.isSet(ControlWord.Draining)) {
      shard.replies.fixed(session, Reply.draining);
      return;
    }
    const attributes = attributesOf(shard, options, job);
    try {
      outcome = engine.putWithoutRoom(session.engineSession, job, nowMs, tube, attributes);
      if (outcome === Outcome.Duplicate) {
        const id = engine.policies.duplicateOf;
        outcome = engine.changes.putAgain(id, job, EMPTY_BODY, attributes, nowMs);
        replyToDuplicate(shard, session, outcome, id, tube);
        return;
      }
    } catch (error) {
      refuseForMemory(shard, session, EMPTY_BODY, error);
      return;
    }
  }
  refuse(shard, session, outcome, tube);
}

function refuse({ replies }: CommandShard, session: ShardSession, outcome: Outcome, tube: string): void {
  const reply = BATCH_REPLIES[outcome];
  if (reply !== undefined) replies.fixed(session, reply);
  else if (outcome === Outcome.TooBig) replies.fixed(session, Reply.jobTooBig);
  else if (outcome === Outcome.TubeFull && tube !== "") replies.fixed(session, Reply.tubeFull);
  else replies.fixed(session, Reply.outOfMemory);
}

/** Answers a put whose key is taken: tells what became of the job that has the key. */
function replyToDuplicate(
  shard: CommandShard,
  session: ShardSession,
  outcome: Outcome,
  id: number,
  tube: string,
): void {
  const word = DUPLICATE_WORDS[outcome];
  if (word === undefined) {
    refuse(shard, session, outcome, tube);
    return;
  }
  // The put that owns the key may not be durable yet.
  shard.replies.dependOnAll();
  shard.replies.number(session, word, id);
}

/** Returns the options of a put as attributes. They are valid until the next call. */
function attributesOf({ nowMs }: CommandShard, options: Span, { atMs }: NewJob): JobAttributes {
  const attributes = scratch.clear();
  const fromMs = Math.max(atMs, nowMs);
  const { bytes, start, end } = options;
  let keyAt = -1;
  let untilReserve = false;
  for (let at = nextOption(bytes, start, end); at > 0; at = nextOption(bytes, at + bytes[at - 1]!, end)) {
    switch (bytes[at - 2]) {
      case OptionTag.Unique:
        keyAt = at;
        break;
      case OptionTag.UniqueUntil:
        untilReserve = numberAt(bytes, at) === 1;
        break;
      case OptionTag.UniqueFor:
        attributes.uniqueUntilMs = timeIn(fromMs, numberAt(bytes, at));
        break;
      case OptionTag.OnDuplicate:
        attributes.onDuplicate = numberAt(bytes, at) as OnDuplicate;
        break;
      case OptionTag.DebounceMax:
        attributes.debounceMaxMs = numberAt(bytes, at);
        break;
      case OptionTag.Ttl:
        attributes.expiresAtMs = timeIn(fromMs, numberAt(bytes, at));
        break;
      case OptionTag.Group:
        attributes.fixed.text(Attribute.Group, bytes, at, at + bytes[at - 1]!);
        break;
      case OptionTag.Meta:
        attributes.fixed.text(Attribute.Meta, bytes, at, at + bytes[at - 1]!);
        break;
      case OptionTag.Batch:
        attributes.batchName = batchName(bytes, at);
        break;
      case OptionTag.AfterAny:
        attributes.afterAny = true;
        attributes.afterName = batchName(bytes, at);
        break;
      case OptionTag.AfterBatch:
        attributes.afterName = batchName(bytes, at);
        break;
      case OptionTag.Weight:
        attributes.fixed.uint16(Attribute.Weight, numberAt(bytes, at));
        break;
      case OptionTag.Cost:
        attributes.fixed.uint16(Attribute.Cost, numberAt(bytes, at));
        break;
    }
  }
  if (keyAt < 0) attributes.uniqueUntilMs = 0;
  else attributes.setKey(bytes, keyAt, keyAt + bytes[keyAt - 1]!, untilReserve);
  return attributes;
}

function batchName(bytes: Uint8Array, at: number): string {
  span.set(bytes, at, at + bytes[at - 1]!);
  return batchNames.textOf(span);
}

/**
 * Refuses a put for lack of memory. Only a RangeError means that memory ran out; any other error
 * is a broken invariant and must end the process.
 */
function refuseForMemory(
  { engine, replies }: CommandShard,
  session: ShardSession,
  body: number,
  error: unknown,
): void {
  if (!(error instanceof RangeError)) throw error;
  engine.bodies.free(body);
  replies.fixed(session, Reply.outOfMemory);
}

/** Returns the time `ms` later, or 0 (never) if `ms` is 0. */
function timeIn(fromMs: number, ms: number): number {
  return ms === 0 ? 0 : fromMs + ms;
}
