// The filter of a listener that requires authentication: it demands `auth` first, and then passes
// only what the token permits.
//
// Unfiltered connections skip this code. Lines are parsed twice, here and by the connection, so
// that the filter takes no part in executing commands.

import { isSameToken } from "../../access/authenticator.ts";
import { type Identity, mayTouchTube } from "../../access/identity.ts";
import * as ascii from "../../base/ascii.ts";
import { latin1 } from "../../base/bytes.ts";
import { RecentMap } from "../../base/recent-map.ts";
import { type CommandParser, Syntax } from "../../protocol/command-parser.ts";
import {
  CommandPermission,
  DELETES,
  Op,
  PASSES_BEFORE_AUTH,
  PERMISSION_OF,
  ROUTE_OF,
  Route,
  SCOPE_OF,
  Scope,
} from "../../protocol/commands.ts";
import { LINE_BYTES_MAX } from "../../protocol/limits.ts";
import { IdList } from "../../protocol/number-reader.ts";
import { Reply } from "../../protocol/reply.ts";
import type { Request } from "../../protocol/request.ts";
import { isEveryTube } from "../../protocol/tube-name.ts";
import type { LineHandler } from "../stream/line-reader.ts";
import type { Transport } from "../stream/transport.ts";
import { type ConnectionFilter, type FilteredConnection, ForwardingHandler } from "./line-filter.ts";

// The jobs that a client has reserved, as its replies show. A client whose token is limited to some
// tubes may use only these ids, because only a job's shard knows which tube the job is in.

const { CR, LF, SPACE } = ascii;
/** Maximum number of ids kept; the oldest are forgotten first. */
const IDS_MAX = 100_000;
/** Longest first line of a reply with a body, apart from a tube name at its end. */
const RESERVED_LINE_BYTES_MAX = 300;
const ZERO = 48;

const RESERVED = Buffer.from("RESERVED ");
const FOUND = Buffer.from("FOUND ");
const OK = Buffer.from("OK ");

export class ReservedIds {
  readonly #ids = new RecentMap<number, true>(IDS_MAX);
  /** The beginning of an unfinished line. */
  readonly #line = Buffer.alloc(RESERVED_LINE_BYTES_MAX);
  #lineBytes = 0;
  /** Bytes of the current body still to come, including CR LF. */
  #bodyLeft = 0;

  has(id: number): boolean {
    return this.#ids.has(id);
  }

  forget(id: number): void {
    this.#ids.delete(id);
  }

  /** Forgets all ids, because the jobs were reserved under another token. */
  clear(): void {
    this.#ids.clear();
  }

  /** Scans replies, whole or in part, as they leave. */
  observe(bytes: Uint8Array, length: number): void {
    let at = 0;
    while (at < length) {
      if (this.#bodyLeft > 0) {
        const part = Math.min(this.#bodyLeft, length - at);
        this.#bodyLeft -= part;
        at += part;
        continue;
      }
      const byte = bytes[at++]!;
      if (byte === LF) this.#endLine();
      // Longer lines are truncated: only their beginning matters.
      else if (this.#lineBytes < RESERVED_LINE_BYTES_MAX) this.#line[this.#lineBytes++] = byte;
    }
  }

  #endLine(): void {
    const line = this.#line;
    const end =
      this.#lineBytes > 0 && line[this.#lineBytes - 1] === CR ? this.#lineBytes - 1 : this.#lineBytes;
    this.#lineBytes = 0;
    if (this.#begins(RESERVED, end)) {
      const id = this.#number(1, end);
      this.#bodyLeft = this.#number(2, end) + 2;
      this.#note(id);
    } else if (this.#begins(FOUND, end)) this.#bodyLeft = this.#number(2, end) + 2;
    else if (this.#begins(OK, end)) this.#bodyLeft = this.#number(1, end) + 2;
  }

  #begins(word: Uint8Array, end: number): boolean {
    if (end < word.length) return false;
    for (let i = 0; i < word.length; i++) if (this.#line[i] !== word[i]) return false;
    return true;
  }

  /** Returns the number after `blanks` spaces. */
  #number(blanks: number, end: number): number {
    let at = 0;
    for (let left = blanks; left > 0 && at < end; at++) if (this.#line[at] === SPACE) left--;
    let value = 0;
    for (; at < end && this.#line[at] !== SPACE; at++) value = value * 10 + this.#line[at]! - ZERO;
    return value;
  }

  #note(id: number): void {
    this.#ids.set(id, true);
  }
}

// A transport that observes the replies on their way to the client. The observed state belongs to
// its thread, so the connection cannot migrate: there is no `departure`.

export class ObservedTransport implements Transport {
  readonly #inner: Transport;
  readonly #observe: (bytes: Uint8Array, length: number) => void;

  constructor(inner: Transport, observe: (bytes: Uint8Array, length: number) => void) {
    this.#inner = inner;
    this.#observe = observe;
  }

  send(buffer: Uint8Array, length: number): boolean {
    this.#observe(buffer, length);
    return this.#inner.send(buffer, length);
  }

  get pendingBytes(): number {
    return this.#inner.pendingBytes;
  }

  get descriptor(): number {
    return this.#inner.descriptor;
  }

  pause(): void {
    this.#inner.pause();
  }

  resume(): void {
    this.#inner.resume();
  }

  end(): void {
    this.#inner.end();
  }

  destroy(): void {
    this.#inner.destroy();
  }
}

/** Admission control, as a filter sees it. */
export interface Admission {
  /** A parser that accepts `auth` besides the server's commands. */
  readonly parser: CommandParser;
  /**
   * Returns the identity with this secret (or `name:secret`), or "over" if the address has failed
   * too often. A slow check returns a promise.
   */
  identify(secret: string): Identity | undefined | "over" | Promise<Identity | undefined | "over">;
  /** Returns whether an authenticated identity is still valid. Tokens expire and are revoked. */
  isWelcome(identity: Identity): boolean;
  /** Called for a connection that has not authenticated yet. */
  onUnknown(filter: AuthFilter): void;
  /** Called when it has authenticated. `before` is its previous identity, if any. */
  onKnown(filter: AuthFilter, before: Identity | undefined): void;
  /**
   * Called when a client was refused. `isCounted` means that it failed with a secret, and that
   * `identify` has counted the failure.
   */
  onFailure(isCounted: boolean): void;
  /** Wakes the thread, because it has work to do. */
  wake(): void;
}

/** Workers see the texts of the jobs that they do. */
const SEES_TEXTS = CommandPermission.Bodies | CommandPermission.Work;

/** The outcome of the last `auth` command. */
type Verdict = { readonly identity: Identity | undefined } | "pending";

export class AuthFilter extends ForwardingHandler implements ConnectionFilter {
  readonly #keeper: Admission;
  readonly #reserved: ReservedIds;
  #connection!: FilteredConnection;
  #identity: Identity | undefined;
  #verdict: Verdict | undefined;
  /**
   * Whether the token is known to permit all watched tubes. Tubes that are watched later are
   * checked one by one.
   */
  #watchesOwn = false;
  /** Whether the connection may hold jobs that it reserved under another token. */
  #holdsFormer = false;

  constructor(keeper: Admission, reserved: ReservedIds) {
    super();
    this.#keeper = keeper;
    this.#reserved = reserved;
  }

  /** Authenticates the client before its first line, by certificate. */
  welcome(identity: Identity): void {
    this.#identity = identity;
  }

  guard(connection: FilteredConnection, lines: LineHandler): LineHandler {
    this.#connection = connection;
    this.inner = lines;
    this.#noteOwner();
    if (this.#identity === undefined) this.#keeper.onUnknown(this);
    else this.#keeper.onKnown(this, undefined);
    return this;
  }

  #noteOwner(): void {
    const { name, permissions = 0 } = this.#identity ?? {};
    this.#connection.belongsTo(name, (permissions & SEES_TEXTS) !== 0);
  }

  /** The client's identity; undefined until it has authenticated. */
  get identity(): Identity | undefined {
    return this.#identity;
  }

  /** Whether a secret of the client is being checked. */
  get isBeingChecked(): boolean {
    return this.#verdict === "pending";
  }

  /**
   * Cuts the connection with UNAUTHORIZED, even during a wait, because its token was revoked or has
   * expired.
   */
  revoke(): void {
    this.#connection.cut(Reply.unauthorized);
  }

  /** Ends the connection with UNAUTHORIZED unless it has authenticated. */
  endUnlessKnown(): void {
    if (this.#identity === undefined) this.#turnAway();
  }

  override lineBytesMax(bytes: Uint8Array, start: number, end: number): number {
    return this.#identity === undefined ? LINE_BYTES_MAX : super.lineBytesMax(bytes, start, end);
  }

  override onLine(bytes: Uint8Array, start: number, end: number, again: boolean): boolean {
    const { parser } = this.#keeper;
    const syntax = parser.parse(bytes, start, end);
    const { request } = parser;
    if (request.op === Op.Auth) return this.#auth(syntax, request);
    const identity = this.#identity;
    if (identity === undefined || !this.#keeper.isWelcome(identity)) {
      const passes = PASSES_BEFORE_AUTH[request.op] === 1;
      return passes ? super.onLine(bytes, start, end, again) : this.#turnAway();
    }
    // Malformed commands have no effect and get their usual reply.
    if (syntax !== Syntax.Ok || this.#may(identity, request)) {
      const deleted = deletedBy(request);
      const done = super.onLine(bytes, start, end, again);
      if (done) for (const id of deleted) this.#reserved.forget(id);
      return done;
    }
    if (ROUTE_OF[request.op] !== Route.Put) return this.#connection.refuse(Reply.unauthorized);
    this.#connection.refuseBody(request.bodyBytes, Reply.unauthorized);
    return true;
  }

  /** Ends the connection with UNAUTHORIZED. An expired token does not count as a guess. */
  #turnAway(isGuess = this.#identity === undefined, isCounted = false): boolean {
    const ended = this.#connection.refuseAndEnd(Reply.unauthorized);
    if (ended && isGuess) this.#keeper.onFailure(isCounted);
    return ended;
  }

  // --- authentication ----------------------------------------------------------------------------

  #auth(syntax: Syntax, { secret }: Request): boolean {
    if (syntax !== Syntax.Ok) return this.#turnAway(true);
    if (this.#verdict === "pending") return false;
    const verdict = this.#verdict ?? this.#ask(secret.text);
    this.#verdict = verdict;
    if (verdict === "pending") return false;
    const { identity } = verdict;
    const before = this.#identity;
    const isOther = identity !== undefined && before !== undefined && !isSameToken(identity, before);
    // Commands before the change are answered under the former token, and their jobs are recorded
    // as its jobs.
    if (isOther && !this.#connection.isAnswered) return false;
    const done =
      identity === undefined ? this.#turnAway(true, true) : this.#connection.refuse(Reply.authenticated);
    if (!done) return false;
    this.#verdict = undefined;
    this.#identity = identity;
    this.#noteOwner();
    if (isOther) this.#forgetFormer();
    this.#keeper.onKnown(this, before);
    return true;
  }

  /** Discards what the previous token allowed: its watched tubes and its jobs don't carry over. */
  #forgetFormer(): void {
    this.#watchesOwn = false;
    this.#holdsFormer = !this.#connection.isQuiet;
    this.#reserved.clear();
  }

  #ask(secret: string): Verdict {
    const found = this.#keeper.identify(secret);
    const verdictOf = (answer: Identity | undefined | "over"): Verdict => ({
      identity: answer === "over" ? undefined : answer,
    });
    if (!(found instanceof Promise)) return verdictOf(found);
    const settle = (answer: Identity | undefined | "over"): void => {
      this.#verdict = verdictOf(answer);
      this.#connection.goOn();
      this.#keeper.wake();
    };
    found.then(settle, () => settle(undefined));
    this.#connection.holdOn();
    return "pending";
  }

  // --- authorisation -----------------------------------------------------------------------------

  #may(identity: Identity, request: Request): boolean {
    const needed = PERMISSION_OF[request.op]!;
    if (needed !== 0 && (identity.permissions & needed) === 0) return false;
    return identity.tubes === undefined || this.#mayTouch(identity, request);
  }

  /**
   * Returns whether a token that is limited to some tubes permits the command. A command is refused
   * unless it certainly stays within them.
   */
  #mayTouch(identity: Identity, { op, id, tube, ids }: Request): boolean {
    const named = (): boolean => mayTouchTube(identity, latin1(tube.bytes, tube.start, tube.end));
    switch (SCOPE_OF[op]) {
      case Scope.Connection:
        return true;
      case Scope.UsedTube:
        return mayTouchTube(identity, this.#connection.usedTube);
      case Scope.NamedTube:
        return named();
      case Scope.NamedTubes:
        // Compare literally: a token's glob such as `?` would match the name that means all tubes.
        return !isEveryTube(tube) && named();
      case Scope.WatchedTubes:
        return this.#mayWatchAll(identity);
      case Scope.Job:
        return this.#reserved.has(id);
      case Scope.Jobs:
        return this.#hasAll(new IdList(ids));
      case Scope.HeldJobs:
        this.#holdsFormer &&= !this.#connection.isQuiet;
        return !this.#holdsFormer;
      default:
        return false;
    }
  }

  /** Returns whether this connection reserved all of these jobs. */
  #hasAll(ids: IdList): boolean {
    while (ids.next()) if (!this.#reserved.has(ids.id)) return false;
    return true;
  }

  /**
   * Returns whether the token permits every watched tube. It may not permit the tube that every
   * connection watches at first, nor tubes watched under a previous token.
   */
  #mayWatchAll(identity: Identity): boolean {
    this.#watchesOwn ||= this.#connection.watchedTubes.every(({ name }) => mayTouchTube(identity, name));
    return this.#watchesOwn;
  }

  override onBadLine(): boolean {
    return this.#identity === undefined ? this.#turnAway() : super.onBadLine();
  }
}

function deletedBy({ op, id, ids }: Request): number[] {
  if (DELETES[op] === 0) return [];
  if (ROUTE_OF[op] !== Route.Jobs) return [id];
  const deleted: number[] = [];
  const list = new IdList(ids);
  while (list.next()) deleted.push(list.id);
  return deleted;
}
