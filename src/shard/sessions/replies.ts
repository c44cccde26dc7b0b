// Writes a shard's replies into the rings to the acceptors, byte for byte as the clients get them.

import { CR, LF, SPACE } from "../../base/ascii.ts";
import { assert, CHECKED } from "../../base/assert.ts";
import { asciiBytes, copyBytes, decimalDigits, writeDecimal } from "../../base/bytes.ts";
import { wasLost } from "../../engine/batch-reserves.ts";
import { type Engine, Outcome } from "../../engine/engine.ts";
import { EMPTY_BODY } from "../../engine/jobs/body-arena.ts";
import { JobState, NO_SLOT, rowOf } from "../../engine/jobs/job-table.ts";
import { RequestFlag } from "../../message/request.ts";
import {
  CANDIDATE_BYTES,
  CandidatesView,
  REDIRECTED_HEADER_BYTES,
  ReplacedView,
  ReplyCredit,
  type ReplyPort,
  ResponseFlag,
  ResponseKind,
  type StoredPart,
  TURNS_CANDIDATE_BYTES,
  TURNS_ENTRY_BYTES,
  TURNS_LIST_AT,
  TurnsView,
} from "../../message/response.ts";
import { Attribute } from "../../protocol/job-attribute.ts";
import { META_TEXT_BYTES_MAX, TUBE_NAME_BYTES_MAX } from "../../protocol/limits.ts";
import { Reply, ReplyWord } from "../../protocol/reply.ts";
import { Request } from "../../protocol/request.ts";
import {
  JobParts,
  type LongBatch,
  type LongReply,
  type PartsCursor,
  type ShardSession,
} from "./shard-session.ts";

const float64 = new Float64Array(1);
const float64Bytes = new Uint8Array(float64.buffer);

/** The number of the record that replies depend on. */
export interface RecordNumbers {
  /** Number of the last record appended; 0 if there is none. */
  readonly lastNumber: number;
}

/** Bytes of a long reply in one message. */
const PIECE_BYTES_MAX = 32 * 1024;
/** The same for replies that refer to the arena. */
const STORED_PIECE_BYTES_MAX = 1024 * 1024;

/** Longest first line of a reply with a body: RESERVED, two numbers, two spaces, CR LF. */
const BODY_HEAD_BYTES_MAX = 48;
/** Room for the details of a lease in the same line: ten numbers and the name of the tube. */
const LEASE_BYTES_MAX = 10 * 17 + 201;

/** Room for a tube's name and a space in the same line. */
const TUBE_BYTES_MAX = TUBE_NAME_BYTES_MAX + 1;
const META = asciiBytes(" meta=");
const NO_BYTES = new Uint8Array(0);

export class ReplyWriter {
  /** The last record before the current command. The reply waits for later ones. */
  recordsBefore = 0;
  readonly #records: RecordNumbers;
  readonly #engine: Engine;
  readonly #ports: readonly ReplyPort[];
  /** The acceptor copies bodies of at least this size itself, if it runs in this thread. */
  readonly #storedBytesMin: number;
  /** The current command. */
  request: Request = new Request();
  /** Returns whether a job that is not here may be on another shard. */
  mayBeElsewhere: (id: number) => boolean = () => false;
  /** Whether a job is known to be on another shard, that is, to have arrived there. */
  isElsewhere: (id: number) => boolean = () => false;
  /** Scratch space for batches. */
  readonly #parts = new JobParts();
  /** Scratch space for first lines. */
  readonly #head = new Uint8Array(
    BODY_HEAD_BYTES_MAX + Math.max(LEASE_BYTES_MAX, TUBE_BYTES_MAX) + META_TEXT_BYTES_MAX,
  );
  /**
   * By acceptor, the long replies whose clients have read enough for the next piece, round robin.
   * No turn looks at the others: any number of clients may not read.
   */
  readonly #ready: Set<LongReply | LongBatch>[] = [];
  /** Number of these. Each turn reads it. */
  longReady = 0;

  constructor(
    engine: Engine,
    ports: readonly ReplyPort[],
    records: RecordNumbers,
    storedBytesMin: number = Number.POSITIVE_INFINITY,
  ) {
    this.#storedBytesMin = storedBytesMin;
    this.#records = records;
    this.#engine = engine;
    this.#ports = ports;
    for (let acceptor = 0; acceptor < ports.length; acceptor++) this.#ready.push(new Set());
  }

  /** Sends a fixed reply. */
  fixed(session: ShardSession, reply: Uint8Array): void {
    const port = this.#begin(session, 0, reply.length);
    copyBytes(port.target, port.at, reply, 0, reply.length);
  }

  bytes(session: ShardSession, source: Uint8Array, at: number, length: number): void {
    if (CHECKED) assert(at >= 0 && at + length <= source.length, "a reply lies within its source");
    const port = this.#begin(session, 0, length);
    copyBytes(port.target, port.at, source, at, length);
  }

  /** Sends `<word><number> CR LF`. */
  // put 9/18
  number(session: ShardSession, word: Uint8Array, number: number): void {
    if (CHECKED) assert(Number.isInteger(number) && number >= 0, "the number in a reply is a count");
    const port = this.#begin(session, 0, word.length + decimalDigits(number) + 2);
    copyBytes(port.target, port.at, word, 0, word.length);
    const at = writeDecimal(port.target, port.at + word.length, number);
    port.target[at] = CR;
    port.target[at + 1] = LF;
  }

  /**
   * Sends a signal to the acceptor itself, with the soonest deadline of the session's jobs here.
   * The view of the kind defines `value` and `word`.
   */
  signal(session: ShardSession, kind: number, value = 0, word = 0): void {
    const port = this.#ports[session.acceptor]!;
    port.beginSignal(kind, session.holdsFlag, session.connectionSlot, 8, value, word);
    float64[0] = session.engineSession.held.soonestMs;
    copyBytes(port.target, port.at, float64Bytes, 0, 8);
  }

  /** Tells the acceptor's audit which settings a pattern had before a change. */
  replaced(session: ShardSession, settings: string): void {
    const port = this.#ports[session.acceptor]!;
    const { holdsFlag, connectionSlot, engineSession } = session;
    port.beginSignal(ResponseKind.Replaced, holdsFlag, connectionSlot, ReplacedView.bytes(settings));
    ReplacedView.write(port.target, port.at, engineSession.held.soonestMs, settings);
  }

  /** Makes the reply wait for all records so far: it reports the effect of earlier commands. */
  dependOnAll(): void {
    this.recordsBefore = 0;
  }

  /** Number of the last record so far. */
  get lastRecord(): number {
    return this.#records.lastNumber % 2 ** 32;
  }

  /** Sends an Ack after changes. The acceptor's reply waits for their record. */
  settled(session: ShardSession, value: number, payload: Uint8Array = NO_BYTES): void {
    const port = this.#ports[session.acceptor]!;
    const flags = session.holdsFlag | this.#durable();
    const { connectionSlot, engineSession } = session;
    const bytes = 8 + payload.length;
    port.beginAck(flags, connectionSlot, bytes, value, this.#records.lastNumber % 2 ** 32);
    float64[0] = engineSession.held.soonestMs;
    copyBytes(port.target, port.at, float64Bytes, 0, 8);
    copyBytes(port.target, port.at + 8, payload, 0, payload.length);
  }

  /** Answers a command by id. */
  outcome(session: ShardSession, outcome: Outcome, done: Uint8Array, requestFlags: number): void {
    if (outcome === Outcome.Done) this.fixed(session, done);
    else this.notFound(session, requestFlags);
  }

  /** Answers NOT_FOUND to a command by id, or has the acceptor look for the job elsewhere. */
  notFound(session: ShardSession, requestFlags: number): void {
    const { id } = this.request;
    const isHere = this.#engine.find(id) !== NO_SLOT;
    if (!isHere && ((requestFlags & RequestFlag.Probe) !== 0 || this.mayBeElsewhere(id)))
      this.elsewhere(session, this.request, requestFlags);
    else {
      // Another client may have deleted or changed the job a moment ago. A client that learns of
      // this must not find the job in its old state after a crash.
      this.dependOnAll();
      this.fixed(session, Reply.notFound);
    }
  }

  /** Tells the acceptor that a command by id belongs to another shard. */
  elsewhere(session: ShardSession, request: Request, requestFlags: number): void {
    if ((requestFlags & RequestFlag.Probe) !== 0) this.signal(session, ResponseKind.Absent);
    else this.redirected(session, request);
  }

  /**
   * Has the acceptor look for a command's job on other shards. Later commands wait for GoOn.
   * The body is the reason of a release or bury, or what is left of a delete-batch.
   */
  redirected(session: ShardSession, request: Request): void {
    const { op, id, pri, delaySeconds, options, body } = request;
    assert(!session.isRedirected, "a command is redirected once");
    assert(op < 256 && options.length < 2 ** 24, "the op and the length of the options share a word");
    session.isRedirected = true;
    const port = this.#ports[session.acceptor]!;
    const bytes = REDIRECTED_HEADER_BYTES + options.length + body.length;
    port.beginSignal(ResponseKind.Redirected, session.holdsFlag, session.connectionSlot, bytes, id, pri);
    const view = new DataView(port.target.buffer, port.target.byteOffset + port.at);
    view.setFloat64(0, session.engineSession.held.soonestMs, true);
    view.setUint32(8, op | (options.length << 8), true);
    view.setUint32(12, delaySeconds, true);
    const at = options.copyTo(port.target, port.at + REDIRECTED_HEADER_BYTES);
    assert(at + body.length === port.at + bytes, "a redirected command has its stated length");
    body.copyTo(port.target, at);
  }

  // --- jobs and texts ----------------------------------------------------------------------------

  /** Answers FOUND with the job in `slot`, requested by id, or NOT_FOUND for NO_SLOT. */
  found(session: ShardSession, slot: number, requestFlags: number): void {
    if (slot === NO_SLOT) this.notFound(session, requestFlags);
    else this.job(session, ReplyWord.found, slot, 0);
  }

  /**
   * Sends `<word><id> <bytes> CR LF <body> CR LF`. It goes in one message if it fits and is no
   * larger than a client may pin. `details` follow the byte count if the reply is for the HTTP
   * thread.
   */
  job(
    session: ShardSession,
    word: Uint8Array,
    slot: number,
    flags: number,
    details: Uint8Array = NO_BYTES,
  ): void {
    const page = this.#engine.jobs.pageOf(slot);
    const row = rowOf(slot);
    if (CHECKED) assert(page.state[row] !== JobState.Free, "a job that is sent exists");
    const bodyBytes = page.bodyBytes[row]!;
    const body = page.body[row]!;
    const head = this.#head;
    copyBytes(head, 0, word, 0, word.length);
    let at = writeDecimal(head, word.length, page.id[row]!);
    head[at++] = SPACE;
    at = writeDecimal(head, at, bodyBytes);
    copyBytes(head, at, details, 0, details.length);
    at += details.length;
    head[at++] = CR;
    head[at++] = LF;
    const port = this.#ports[session.acceptor]!;
    assert(at <= head.length, "a first line fits into its scratch space");
    const isStored = port.isLocal && bodyBytes >= this.#storedBytesMin;
    const wholeBytesMax = isStored ? Number.POSITIVE_INFINITY : port.payloadBytesMax;
    if (at + bodyBytes + 2 > Math.min(wholeBytesMax, ReplyCredit.WholeReplyBytesMax)) {
      this.#beginLong(session, head.slice(0, at), body, bodyBytes, flags);
      return;
    }
    if (isStored) {
      const part = { handle: body, offset: 0, length: bodyBytes, isLast: true, headBytes: at };
      this.#beginStored(session, flags | this.#durable(), this.#records.lastNumber, part);
      copyBytes(port.target, port.at, head, 0, at);
      return;
    }
    this.#begin(session, flags, at + bodyBytes + 2);
    copyBytes(port.target, port.at, head, 0, at);
    this.#engine.bodies.read(body, 0, port.target, port.at + at, bodyBytes);
    port.target[port.at + at + bodyBytes] = CR;
    port.target[port.at + at + bodyBytes + 1] = LF;
  }

  /** Sends OK with an ASCII text. */
  text(session: ShardSession, text: string): void {
    const head = `OK ${text.length}\r\n`;
    if (head.length + text.length + 2 <= this.#ports[session.acceptor]!.payloadBytesMax)
      this.fixed(session, asciiBytes(`${head}${text}\r\n`));
    else this.#longText(session, asciiBytes(head), asciiBytes(text));
  }

  /** Sends a long text in pieces. Until it is sent, it is stored as a body in the arena. */
  #longText(session: ShardSession, head: Uint8Array, text: Uint8Array): void {
    const { bodies } = this.#engine;
    let body: number = EMPTY_BODY;
    try {
      body = bodies.allocate(text.length);
      bodies.write(body, 0, text, 0, text.length);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      bodies.free(body);
      this.fixed(session, Reply.outOfMemory);
      return;
    }
    this.#beginLong(session, head, body, text.length, 0);
    bodies.free(body);
  }

  // --- candidates, batches and gathered answers --------------------------------------------------

  /** Names the best job that the session could get here, without taking it. */
  candidate(session: ShardSession, nowMs: number): void {
    const { turns } = session.engineSession;
    const slot = this.#engine.bestReady(session.engineSession, nowMs);
    if (turns?.decides === true) {
      this.#candidateInTurn(session, slot);
      return;
    }
    if (slot === NO_SLOT) {
      this.signal(session, ResponseKind.Absent);
      return;
    }
    const page = this.#engine.jobs.pageOf(slot);
    assert(page.state[rowOf(slot)] === JobState.Ready, "a candidate is ready");
    this.signal(session, ResponseKind.Candidate, page.id[rowOf(slot)]!, page.pri[rowOf(slot)]!);
  }

  /** Does the same for a session that picks by weight: see message/response.ts. */
  #candidateInTurn(session: ShardSession, slot: number): void {
    assert(session.engineSession.turns?.decides === true, "only a session that takes turns has a place");
    const turns = session.engineSession.turns!;
    const payload = new DataView(new ArrayBuffer(TURNS_CANDIDATE_BYTES));
    payload.setFloat64(0, session.engineSession.held.soonestMs, true);
    TurnsView.write(payload, turns.floor, turns.earliest);
    TurnsView.writePlace(payload, turns.place);
    const port = this.#ports[session.acceptor]!;
    const isThere = slot !== NO_SLOT;
    const page = isThere ? this.#engine.jobs.pageOf(slot) : undefined;
    port.beginSignal(
      isThere ? ResponseKind.Candidate : ResponseKind.Absent,
      session.holdsFlag,
      session.connectionSlot,
      payload.byteLength,
      page?.id[rowOf(slot)] ?? 0,
      page?.pri[rowOf(slot)] ?? 0,
    );
    copyBytes(port.target, port.at, new Uint8Array(payload.buffer), 0, payload.byteLength);
  }

  // --- batches -----------------------------------------------------------------------------------

  /**
   * Sends RESERVED_BATCH with the jobs in `slots`, each with the details that `details`
   * (BATCH_DETAILS) selects.
   */
  batch(session: ShardSession, slots: readonly number[], details: number): void {
    assert(slots.length > 0, "a batch has a job");
    const parts = this.#parts;
    parts.begin();
    this.#addLine(ReplyWord.reservedBatch, slots.length);
    for (const slot of slots) this.#addJob(slot, details);
    const port = this.#ports[session.acceptor]!;
    if (parts.bytes <= Math.min(port.payloadBytesMax, ReplyCredit.WholeReplyBytesMax)) {
      this.#begin(session, 0, parts.bytes);
      parts.copyTo(this.#engine.bodies, port.target, port.at);
    } else if (slots.length > 1) this.#beginLongBatch(session, parts.keep(this.#engine.bodies), false);
    else {
      const page = this.#engine.jobs.pageOf(slots[0]!);
      const row = rowOf(slots[0]!);
      this.#beginLong(session, parts.lines.slice(), page.body[row]!, page.bodyBytes[row]!, 0);
    }
  }

  /** Sends jobs of a batch that the acceptor assembles; NO_SLOT for those that were not taken. */
  gathered(session: ShardSession, slots: readonly number[], details: number): void {
    const parts = this.#parts;
    parts.begin();
    const sizes = new DataView(new ArrayBuffer(slots.length * 4));
    const sizesAt = parts.line(new Uint8Array(sizes.buffer));
    assert(sizesAt === 0, "the sizes of parts come before them");
    for (const [index, slot] of slots.entries()) {
      const before = parts.bytes;
      if (slot !== NO_SLOT) this.#addJob(slot, details);
      sizes.setUint32(index * 4, parts.bytes - before, true);
    }
    parts.lines.set(new Uint8Array(sizes.buffer), sizesAt);
    this.#sendGathered(session);
  }

  /** Sends bytes that the acceptor processes itself. */
  gatheredBytes(session: ShardSession, bytes: Uint8Array): void {
    assert(bytes.length > 0, "a gathered answer has bytes");
    this.#parts.begin();
    this.#parts.line(bytes);
    this.#sendGathered(session);
  }

  #sendGathered(session: ShardSession): void {
    const parts = this.#parts;
    const port = this.#ports[session.acceptor]!;
    if (parts.bytes > Math.min(port.payloadBytesMax, ReplyCredit.WholeReplyBytesMax)) {
      this.#beginLongBatch(session, parts.keep(this.#engine.bodies), true);
      return;
    }
    port.beginSignal(ResponseKind.Gathered, session.holdsFlag, session.connectionSlot, parts.bytes);
    parts.copyTo(this.#engine.bodies, port.target, port.at);
  }

  /**
   * Names the jobs that the session could get here, best first, as many as fit into a message.
   * Takes none of them. `isCut` means that there are more. `places` is set for a session that picks
   * by weight.
   */
  candidates(
    session: ShardSession,
    slots: readonly number[],
    isCut: boolean,
    places: readonly number[] | undefined,
    ready: number,
  ): void {
    const port = this.#ports[session.acceptor]!;
    const { turns } = session.engineSession;
    const listAt = places === undefined ? 8 : TURNS_LIST_AT;
    const entryBytes = places === undefined ? CANDIDATE_BYTES : TURNS_ENTRY_BYTES;
    const count = Math.min(slots.length, Math.floor((port.payloadBytesMax - listAt) / entryBytes));
    assert(count >= 0 && count <= slots.length, "a list of candidates has no more than there are");
    const payload = new DataView(new ArrayBuffer(listAt + count * entryBytes));
    if (places !== undefined) TurnsView.write(payload, turns!.floor, turns!.earliest);
    payload.setFloat64(0, session.engineSession.held.soonestMs, true);
    const { jobs } = this.#engine;
    assert(places === undefined || places.length >= count, "each candidate has a place in turn");
    for (let index = 0; index < count; index++) {
      const slot = slots[index]!;
      const page = jobs.pageOf(slot);
      const row = rowOf(slot);
      assert(page.state[row] === JobState.Ready, "each candidate of a batch is ready");
      const at = listAt + index * entryBytes;
      const bodyBytes = page.bodyBytes[row]!;
      CandidatesView.write(payload, at, page.id[row]!, page.pri[row]!, bodyBytes, wasLost(jobs, slot));
      if (places !== undefined) TurnsView.writeEntryPlace(payload, at, places[index]!);
    }
    const flags = session.holdsFlag;
    const word = CandidatesView.word(isCut || count < slots.length, ready);
    const { lingerEndsAtMs } = session.engineSession;
    const bytes = payload.byteLength;
    port.beginSignal(ResponseKind.Candidates, flags, session.connectionSlot, bytes, lingerEndsAtMs, word);
    copyBytes(port.target, port.at, new Uint8Array(payload.buffer), 0, payload.byteLength);
  }

  /** Adds `<word><number> CR LF` to the lines of the parts. */
  #addLine(word: Uint8Array, number: number): void {
    const head = this.#head;
    copyBytes(head, 0, word, 0, word.length);
    const at = writeDecimal(head, word.length, number);
    assert(at + 2 <= head.length, "a line with a number fits into its scratch space");
    head[at] = CR;
    head[at + 1] = LF;
    this.#parts.line(head, at + 2);
  }

  /** Adds `RESERVED <id> <bytes>[ <tube>][ meta=<pair>]… CR LF <body> CR LF` as a part. */
  #addJob(slot: number, details: number): void {
    const page = this.#engine.jobs.pageOf(slot);
    const row = rowOf(slot);
    const head = this.#head;
    const bodyBytes = page.bodyBytes[row]!;
    copyBytes(head, 0, ReplyWord.reserved, 0, ReplyWord.reserved.length);
    let at = writeDecimal(head, ReplyWord.reserved.length, page.id[row]!);
    head[at++] = SPACE;
    at = writeDecimal(head, at, bodyBytes);
    if ((details & RequestFlag.Tubes) !== 0) {
      head[at++] = SPACE;
      const { name } = this.#engine.tubeOf(slot);
      for (let index = 0; index < name.length; index++) head[at++] = name.charCodeAt(index);
    }
    if ((details & RequestFlag.Meta) !== 0) at = this.#writeMeta(slot, at);
    head[at++] = CR;
    head[at++] = LF;
    assert(at <= head.length, "a job's line fits into its scratch space");
    this.#parts.line(head, at);
    this.#parts.body(page.body[row]!, bodyBytes);
  }

  /** Writes the pairs of a job at `at` of its line. Returns their end. */
  #writeMeta(slot: number, at: number): number {
    const head = this.#head;
    const fixed = this.#engine.policies.attributes.fixedAttributes(slot);
    let end = at;
    for (let from = 0; from + 2 <= fixed.length; from += 2 + fixed[from + 1]!) {
      if (fixed[from] !== Attribute.Meta) continue;
      assert(from + 2 + fixed[from + 1]! <= fixed.length, "an attribute ends inside its list");
      copyBytes(head, end, META, 0, META.length);
      copyBytes(head, end + META.length, fixed, from + 2, fixed[from + 1]!);
      end += META.length + fixed[from + 1]!;
    }
    return end;
  }

  // --- long replies ------------------------------------------------------------------------------

  // They go out in pieces between other commands, as their clients read.

  #beginLongBatch(session: ShardSession, parts: PartsCursor, isGathered: boolean): void {
    assert(session.longReply === undefined, "a session reads one reply at a time");
    const reply: LongBatch = {
      session,
      parts,
      isGathered,
      flags: isGathered ? 0 : this.#durable(),
      recordNumber: this.#records.lastNumber,
      onRead: () => this.#noteReading(reply),
    };
    session.longReply = reply;
    assert(parts.leftBytes > 0, "a long batch has bytes");
    this.#noteReading(reply);
  }

  #sendBatchPiece({ session, parts, isGathered, flags, recordNumber }: LongBatch): boolean {
    const port = this.#ports[session.acceptor]!;
    const bytes = Math.min(PIECE_BYTES_MAX, port.payloadBytesMax, parts.leftBytes);
    const isLast = bytes === parts.leftBytes;
    assert(bytes > 0, "a piece of a batch has bytes");
    const pieceFlags = flags | (isLast ? 0 : ResponseFlag.More);
    if (isGathered)
      port.beginSignal(ResponseKind.Gathered, pieceFlags | session.holdsFlag, session.connectionSlot, bytes);
    else this.#beginPiece(session, pieceFlags, bytes, recordNumber);
    parts.copy(port.target, port.at, bytes);
    return isLast;
  }

  #beginLong(session: ShardSession, head: Uint8Array, body: number, bodyBytes: number, flags: number): void {
    assert(session.longReply === undefined, "a session reads one reply at a time");
    assert(head.length > 0 && bodyBytes >= 0, "a long reply has a first line and a body");
    this.#engine.bodies.pin(body);
    const reply: LongReply = {
      session,
      body,
      bodyBytes,
      head,
      // The flag is set now, because the pieces are sent between other commands.
      flags: flags | this.#durable(),
      recordNumber: this.#records.lastNumber,
      onRead: () => this.#noteReading(reply),
      sentBytes: 0,
    };
    session.longReply = reply;
    this.#noteReading(reply);
  }

  /** Lines up a reply whose client has read enough for the next piece. */
  #noteReading(reply: LongReply | LongBatch): void {
    const ready = this.#ready[reply.session.acceptor]!;
    assert(reply.session.longReply === reply, "a long reply is that of its session");
    if (!mayGoOn(reply) || ready.has(reply)) return;
    ready.add(reply);
    this.longReady++;
  }

  #leaveLine(reply: LongReply | LongBatch): void {
    if (this.#ready[reply.session.acceptor]!.delete(reply)) this.longReady--;
    assert(this.longReady >= 0, "long replies in line are counted");
  }

  /** Whether a long reply could continue now. */
  get longHasWork(): boolean {
    return this.#ready.some((ready, acceptor) => ready.size > 0 && this.#hasRoom(this.#ports[acceptor]!));
  }

  /** Asks for room for the long replies whose clients have read enough. */
  wantRoomForLong(): void {
    for (const [acceptor, ready] of this.#ready.entries())
      if (ready.size > 0) this.#ports[acceptor]!.ring.wantRoom();
  }

  /** Sends pieces round robin. Returns a session whose reply is complete, until there is none. */
  pumpLong(): ShardSession | undefined {
    for (const [acceptor, ready] of this.#ready.entries()) {
      const port = this.#ports[acceptor]!;
      let left = ready.size;
      for (const reply of ready) {
        if (left-- === 0 || !this.#hasRoom(port)) break;
        this.#leaveLine(reply);
        if (!this.#sendPiece(reply)) {
          this.#noteReading(reply);
          continue;
        }
        assert(reply.session.longReply === reply, "a long reply belongs to its session");
        this.#unpin(reply);
        reply.session.longReply = undefined;
        return reply.session;
      }
    }
    return undefined;
  }

  /** Gives up the long reply of a session that ends. */
  abandonLong(session: ShardSession): void {
    const reply = session.longReply;
    if (reply === undefined) return;
    this.#leaveLine(reply);
    this.#unpin(reply);
    session.longReply = undefined;
  }

  #unpin(reply: LongReply | LongBatch): void {
    if (reply.parts === undefined) this.#engine.bodies.unpin(reply.body);
    else reply.parts.end();
  }

  /**
   * Returns whether a piece of a long reply or list has room: half of the ring is for other
   * replies.
   */
  hasRoomForPiece(session: ShardSession): boolean {
    return this.#hasRoom(this.#ports[session.acceptor]!);
  }

  #hasRoom(port: ReplyPort): boolean {
    return port.ring.used <= port.ring.messageBytesMax && !port.blocked && !port.storedIsFull;
  }

  /** Sends one piece. Returns true if it was the last. */
  #sendPiece(reply: LongReply | LongBatch): boolean {
    assert(!reply.session.ended, "no pieces are sent to a client that is gone");
    if (reply.parts !== undefined) return this.#sendBatchPiece(reply);
    const { isLocal } = this.#ports[reply.session.acceptor]!;
    return isLocal && reply.bodyBytes >= this.#storedBytesMin
      ? this.#sendStoredPiece(reply)
      : this.#sendBodyPiece(reply);
  }

  #sendBodyPiece(reply: LongReply): boolean {
    const port = this.#ports[reply.session.acceptor]!;
    const headBytes = reply.head.length;
    const totalBytes = headBytes + reply.bodyBytes + 2;
    const pieceBytes = Math.min(PIECE_BYTES_MAX, port.payloadBytesMax, totalBytes - reply.sentBytes);
    assert(pieceBytes > 0, "a piece of a reply has bytes");
    const last = reply.sentBytes + pieceBytes === totalBytes;
    const flags = reply.flags | (last ? 0 : ResponseFlag.More);
    this.#beginPiece(reply.session, flags, pieceBytes, reply.recordNumber);
    let done = 0;
    while (done < pieceBytes) {
      const position = reply.sentBytes + done;
      const at = port.at + done;
      const remaining = pieceBytes - done;
      if (position < headBytes) {
        const part = Math.min(remaining, headBytes - position);
        copyBytes(port.target, at, reply.head, position, part);
        done += part;
      } else if (position < headBytes + reply.bodyBytes) {
        const part = Math.min(remaining, headBytes + reply.bodyBytes - position);
        if (reply.body !== EMPTY_BODY)
          this.#engine.bodies.read(reply.body, position - headBytes, port.target, at, part);
        done += part;
      } else {
        port.target[at] = position === totalBytes - 1 ? LF : CR;
        done++;
      }
    }
    reply.sentBytes += pieceBytes;
    assert(
      done === pieceBytes && reply.sentBytes <= totalBytes,
      "a piece is written whole and within its reply",
    );
    return last;
  }

  /** Sends a piece from the arena: the head goes with the first piece, CR LF with the last. */
  #sendStoredPiece(reply: LongReply): boolean {
    assert(
      reply.sentBytes === 0 || reply.sentBytes >= reply.head.length,
      "the first piece has the whole head",
    );
    const { head, body, bodyBytes } = reply;
    const headBytes = reply.sentBytes === 0 ? head.length : 0;
    const offset = reply.sentBytes === 0 ? 0 : reply.sentBytes - head.length;
    const length = Math.min(STORED_PIECE_BYTES_MAX, bodyBytes - offset);
    assert(offset >= 0 && length >= 0, "a piece begins within its body");
    const isLast = offset + length === bodyBytes;
    const flags = reply.flags | (isLast ? 0 : ResponseFlag.More);
    const part = { handle: body, offset, length, isLast, headBytes };
    const port = this.#beginStored(reply.session, flags, reply.recordNumber, part);
    copyBytes(port.target, port.at, head, 0, headBytes);
    reply.sentBytes += headBytes + length;
    return isLast;
  }

  // --- the beginning of a reply ------------------------------------------------------------------

  #begin(session: ShardSession, flags: number, length: number): ReplyPort {
    const port = this.#ports[session.acceptor]!;
    const number = this.#records.lastNumber;
    const durable = number === this.recordsBefore ? 0 : ResponseFlag.Durable;
    if (CHECKED) assert(length > 0, "a reply has bytes");
    session.sentBytes = (session.sentBytes + length) | 0;
    port.beginReply(flags | durable | session.holdsFlag, session.connectionSlot, length, number % 2 ** 32);
    return port;
  }

  /** Returns ResponseFlag.Durable if the current command has made a record. */
  #durable(): number {
    return this.#records.lastNumber !== this.recordsBefore ? ResponseFlag.Durable : 0;
  }

  #beginPiece(session: ShardSession, flags: number, length: number, recordNumber: number): ReplyPort {
    const port = this.#ports[session.acceptor]!;
    if (CHECKED) assert(length > 0, "a reply has bytes");
    session.sentBytes = (session.sentBytes + length) | 0;
    port.beginReply(flags | session.holdsFlag, session.connectionSlot, length, recordNumber % 2 ** 32);
    return port;
  }

  /**
   * Begins a reply with a body part that the acceptor copies itself. The caller writes the head.
   */
  #beginStored(session: ShardSession, flags: number, recordNumber: number, part: StoredPart): ReplyPort {
    const port = this.#ports[session.acceptor]!;
    assert(port.isLocal, "only an acceptor in this thread reads the arena");
    this.#engine.bodies.pin(part.handle);
    const bytes = part.headBytes + part.length + (part.isLast ? 2 : 0);
    session.sentBytes = (session.sentBytes + bytes) | 0;
    port.beginStored(flags | session.holdsFlag, session.connectionSlot, recordNumber % 2 ** 32, part);
    return port;
  }
}

function mayGoOn(reply: LongReply | LongBatch): boolean {
  if (reply.parts !== undefined && reply.isGathered) return true;
  return reply.session.unreadBytes < ReplyCredit.LongUnreadBytesMax;
}
