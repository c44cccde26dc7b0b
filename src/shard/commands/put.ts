// `put` and `put-in-tube`: takes bodies into the arena, whole or in pieces, and stores each job
// when its last byte has arrived.

import { assert } from "../../base/assert.ts";
import { type Engine, Outcome } from "../../engine/engine.ts";
import { type BodyArena, EMPTY_BODY } from "../../engine/jobs/body-arena.ts";
import { JobAttributes, type NewJob } from "../../engine/jobs/new-job.ts";
import { handleOf, RequestFlag } from "../../message/request.ts";
import { ControlWord } from "../../message/topology.ts";
import { Attribute } from "../../protocol/job-attribute.ts";
import { type OnDuplicate, OptionTag } from "../../protocol/option-rows.ts";
import { nextOption, numberAt } from "../../protocol/options.ts";
import { Reply, ReplyWord } from "../../protocol/reply.ts";
import { type Request, Span } from "../../protocol/request.ts";
import type { Replies } from "../sessions/replies.ts";
import type { ShardSession } from "../sessions/shard-session.ts";

/** Replies by outcome to a put whose key is taken. */
const DUPLICATE_WORDS: Readonly<Record<number, Uint8Array>> = {
  [Outcome.Duplicate]: ReplyWord.duplicate,
  [Outcome.Kept]: ReplyWord.kept,
  [Outcome.Replaced]: ReplyWord.replaced,
  [Outcome.Escalated]: ReplyWord.escalated,
  [Outcome.Debounced]: ReplyWord.debounced,
};

/**
 * Takes a body in the arena that came with a set-schedule. The options are valid only during the
 * call.
 */
type ScheduleBody = (session: ShardSession, job: NewJob, body: number, tube: string, options: Span) => void;
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

/** Flags that all threads share. */
interface Flags {
  isSet(word: number): boolean;
}

export class PutIntake {
  readonly #engine: Engine;
  readonly #arena: BodyArena;
  readonly #replies: Replies;
  readonly #flags: Flags;
  readonly #schedule: ScheduleBody;
  readonly #attributes = new JobAttributes();
  readonly #tubeNames = new NameCache();
  readonly #batchNames = new NameCache();
  readonly #span = new Span();

  /** `schedule` takes the body of a set-schedule. */
  constructor(engine: Engine, replies: Replies, flags: Flags, schedule: ScheduleBody) {
    this.#schedule = schedule;
    this.#engine = engine;
    this.#arena = engine.bodies;
    this.#replies = replies;
    this.#flags = flags;
  }

  /** Stores a job whose body is complete. */
  put(session: ShardSession, request: Request, nowMs: number): void {
    if (this.#flags.isSet(ControlWord.Draining)) {
      this.#replies.fixed(session, Reply.draining);
      return;
    }
    const { body } = request;
    request.bodyBytes = body.length;
    let stored: number = EMPTY_BODY;
    let hasRoom = false;
    try {
      stored = this.#arena.allocate(body.length);
      this.#arena.write(stored, 0, body.bytes, body.start, body.length);
      hasRoom = this.#arena.limit.allows;
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    const { tube } = request;
    const name = tube.length === 0 ? "" : this.#tubeNames.textOf(tube);
    if (!hasRoom) {
      this.#arena.free(stored);
      this.#refuseFull(session, request, name, request.options, nowMs);
      return;
    }
    this.#store(session, request, stored, name, request.options, nowMs);
  }

  /** Stores a job whose body the acceptor has written to the arena. */
  putStored(session: ShardSession, request: Request, nowMs: number): void {
    assert(session.incoming === undefined, "a session sends one body at a time: no put in pieces is open");
    const body = handleOf(request.body);
    if ((request.flags & RequestFlag.NoRoom) !== 0) {
      this.#refuseFull(session, request, this.#tubeNames.textOf(request.tube), request.options, nowMs);
      return;
    }
    if (this.#flags.isSet(ControlWord.Draining)) {
      this.#arena.free(body);
      this.#replies.fixed(session, Reply.draining);
      return;
    }
    this.#store(session, request, body, this.#tubeNames.textOf(request.tube), request.options, nowMs);
  }

  /** Frees the body of a stored put that is not executed. */
  dropStored(request: Request): void {
    this.#arena.free(handleOf(request.body));
  }

  /**
   * Starts a put whose body arrives in pieces. Its id stays invisible until the body is complete.
   */
  open(session: ShardSession, request: Request): void {
    assert(session.incoming === undefined, "a session sends one body at a time");
    const { id, pri, delaySeconds, delayMillis, ttrSeconds, bodyBytes, atMs } = request;
    assert(id > 0 && bodyBytes > 0, "a put in pieces has an id and a body");
    let body: number = EMPTY_BODY;
    let failed = false;
    try {
      body = this.#arena.allocate(bodyBytes);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      failed = true;
    }
    const job = { id, pri, delaySeconds, delayMillis, ttrSeconds, bodyBytes, atMs };
    const options = new Span();
    options.copyOf(request.options);
    session.incoming = {
      job,
      tube: this.#tubeNames.textOf(request.tube),
      options,
      body,
      receivedBytes: 0,
      failed,
    };
  }

  /**
   * Takes the next piece. If memory runs out, the rest is dropped as it arrives and the put is
   * refused at its end.
   */
  data(session: ShardSession, piece: Span): void {
    const { incoming } = session;
    assert(incoming !== undefined, "a piece belongs to a put that was opened");
    if (incoming.failed) return;
    try {
      this.#arena.write(incoming.body, incoming.receivedBytes, piece.bytes, piece.start, piece.length);
      incoming.receivedBytes += piece.length;
      assert(incoming.receivedBytes <= incoming.job.bodyBytes, "a body has no more bytes than its put said");
      if (this.#arena.limit.allows) return;
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    this.#arena.free(incoming.body);
    incoming.body = EMPTY_BODY;
    incoming.failed = true;
  }

  /** Completes the put. `badBody` is set if no CR LF followed the body. */
  end(session: ShardSession, badBody: boolean, nowMs: number): void {
    const { incoming } = session;
    assert(incoming !== undefined, "an end belongs to a put that was opened");
    const { job, tube, options, body, failed } = incoming;
    const isDraining = this.#flags.isSet(ControlWord.Draining);
    if (badBody || failed || isDraining) {
      this.abandon(session);
      if (badBody) this.#replies.fixed(session, Reply.expectedCrlf);
      else if (failed) this.#refuseFull(session, job, tube, options, nowMs);
      else this.#replies.fixed(session, Reply.draining);
      return;
    }
    assert(incoming.receivedBytes === job.bodyBytes, "a put ends after the last byte of its body");
    session.incoming = undefined;
    this.#store(session, job, body, tube, options, nowMs);
  }

  /** Frees a body that is still arriving. */
  abandon(session: ShardSession): void {
    if (session.incoming === undefined) return;
    this.#arena.free(session.incoming.body);
    session.incoming = undefined;
  }

  /** Stores a job in the tube with this name, or for "" in the session's tube in use. */
  #store(session: ShardSession, job: NewJob, body: number, tube: string, options: Span, nowMs: number): void {
    assert(job.id > 0, "a job that is stored has an id");
    if (options.length > 0 && options.bytes[options.start] === OptionTag.Schedule) {
      this.#schedule(session, job, body, tube, options);
      return;
    }
    const attributes = options.length === 0 ? undefined : this.#attributesOf(options, job, nowMs);
    let outcome: Outcome;
    try {
      outcome = this.#engine.put(session.engineSession, job, body, nowMs, tube, attributes);
      if (outcome === Outcome.Duplicate) {
        const id = this.#engine.policies.duplicateOf;
        outcome = this.#engine.changes.putAgain(id, job, body, attributes!, nowMs);
        this.#replyToDuplicate(session, outcome, id, tube);
        if (outcome !== Outcome.Replaced) this.#arena.free(body);
        return;
      }
    } catch (error) {
      this.#refuseForMemory(session, body, error);
      return;
    }
    if (outcome === Outcome.Done) {
      this.#replies.number(session, ReplyWord.inserted, job.id);
      return;
    }
    this.#arena.free(body);
    this.#refuse(session, outcome, tube);
  }

  /** Refuses a put that memory has no room for. A duplicate is told so: it stores nothing. */
  #refuseFull(session: ShardSession, job: NewJob, tube: string, options: Span, nowMs: number): void {
    const { engineSession } = session;
    let outcome: Outcome = Outcome.NoRoom;
    if (options.length > 0 && options.bytes[options.start] !== OptionTag.Schedule) {
      if (this.#flags.isSet(ControlWord.Draining)) {
        this.#replies.fixed(session, Reply.draining);
        return;
      }
      const attributes = this.#attributesOf(options, job, nowMs);
      try {
        outcome = this.#engine.putWithoutRoom(engineSession, job, nowMs, tube, attributes);
        if (outcome === Outcome.Duplicate) {
          const id = this.#engine.policies.duplicateOf;
          outcome = this.#engine.changes.putAgain(id, job, EMPTY_BODY, attributes, nowMs);
          this.#replyToDuplicate(session, outcome, id, tube);
          return;
        }
      } catch (error) {
        this.#refuseForMemory(session, EMPTY_BODY, error);
        return;
      }
    }
    this.#refuse(session, outcome, tube);
  }

  #refuse(session: ShardSession, outcome: Outcome, tube: string): void {
    const reply = BATCH_REPLIES[outcome];
    if (reply !== undefined) this.#replies.fixed(session, reply);
    else if (outcome === Outcome.TooBig) this.#replies.fixed(session, Reply.jobTooBig);
    else if (outcome === Outcome.TubeFull && tube !== "") this.#replies.fixed(session, Reply.tubeFull);
    else this.#replies.fixed(session, Reply.outOfMemory);
  }

  /** Answers a put whose key is taken: tells what became of the job that has the key. */
  #replyToDuplicate(session: ShardSession, outcome: Outcome, id: number, tube: string): void {
    const word = DUPLICATE_WORDS[outcome];
    if (word === undefined) {
      this.#refuse(session, outcome, tube);
      return;
    }
    // The put that owns the key may not be durable yet.
    this.#replies.dependOnAll();
    this.#replies.number(session, word, id);
  }

  /** Returns the options of a put as attributes. They are valid until the next call. */
  #attributesOf(options: Span, { atMs }: NewJob, nowMs: number): JobAttributes {
    const attributes = this.#attributes.clear();
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
          attributes.batchName = this.#batchName(bytes, at);
          break;
        case OptionTag.AfterAny:
          attributes.afterAny = true;
          attributes.afterName = this.#batchName(bytes, at);
          break;
        case OptionTag.AfterBatch:
          attributes.afterName = this.#batchName(bytes, at);
          break;
        case OptionTag.Weight:
          attributes.fixed.uint16(Attribute.Weight, numberAt(bytes, at));
          break;
      }
    }
    if (keyAt < 0) attributes.uniqueUntilMs = 0;
    else attributes.setKey(bytes, keyAt, keyAt + bytes[keyAt - 1]!, untilReserve);
    return attributes;
  }

  #batchName(bytes: Uint8Array, at: number): string {
    this.#span.set(bytes, at, at + bytes[at - 1]!);
    return this.#batchNames.textOf(this.#span);
  }

  /**
   * Refuses a put for lack of memory. Only a RangeError means that memory ran out; any other error
   * is a broken invariant and must end the process.
   */
  #refuseForMemory(session: ShardSession, body: number, error: unknown): void {
    if (!(error instanceof RangeError)) throw error;
    this.#arena.free(body);
    this.#replies.fixed(session, Reply.outOfMemory);
  }
}

interface PutShard {
  readonly puts: PutIntake;
  readonly nowMs: number;
}

/** Stores a job whose whole body is in the message. */
export const put = ({ puts, nowMs }: PutShard, session: ShardSession, request: Request): void =>
  puts.put(session, request, nowMs);

/** Stores a job whose body is in the arena already. */
export const putStored = ({ puts, nowMs }: PutShard, session: ShardSession, request: Request): void =>
  puts.putStored(session, request, nowMs);

export const putOpen = ({ puts }: PutShard, session: ShardSession, request: Request): void => {
  puts.open(session, request);
  puts.data(session, request.body);
};

export const putData = ({ puts }: PutShard, session: ShardSession, { body }: Request): void =>
  puts.data(session, body);

export const putEnd = ({ puts, nowMs }: PutShard, session: ShardSession, { body, flags }: Request): void => {
  puts.data(session, body);
  puts.end(session, (flags & RequestFlag.BadBody) !== 0, nowMs);
};

/** Returns the time `ms` later, or 0 (never) if `ms` is 0. */
function timeIn(fromMs: number, ms: number): number {
  return ms === 0 ? 0 : fromMs + ms;
}
