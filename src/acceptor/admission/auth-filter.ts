// The gate of a listener that wants to know who its clients are: `auth` first, then only what the token may do.
//
// Connections without a gate do not pass here. A line is parsed twice, here and by the connection, so that
// this has no part in what commands do.

import { isSameToken } from "../../access/authenticator.ts";
import { COMMAND_PERMISSIONS } from "../../access/command-permissions.ts";
import { type Identity, mayTouchTube } from "../../access/identity.ts";
import { latin1 } from "../../base/bytes.ts";
import { type CommandParser, Syntax } from "../../protocol/command-parser.ts";
import { EXTENSIONS, Op, ROUTE_OF, Route } from "../../protocol/commands.ts";
import { IdList } from "../../protocol/id-list.ts";
import { LINE_BYTES_MAX } from "../../protocol/limits.ts";
import { Reply } from "../../protocol/reply.ts";
import type { Request } from "../../protocol/request.ts";
import { isEveryTube } from "../../protocol/tube-name.ts";
import type { LineHandler } from "../input/line-reader.ts";
import type { FilteredConnection, Gate } from "./filtered-connection.ts";
import { ForwardingHandler } from "./forwarding-handler.ts";
import type { ReservedIds } from "./reserved-ids.ts";

/** Who lets clients in. */
export interface Admission {
  /** Knows `auth` beside the commands of the server. */
  readonly parser: CommandParser;
  /** Who has this secret, or this `name:secret`, or "over" where it is not asked any more; a promise where that takes a while. */
  identify(secret: string): Identity | undefined | "over" | Promise<Identity | undefined | "over">;
  /** Whether who was let in is still welcome: tokens end, and are taken away. */
  isWelcome(identity: Identity): boolean;
  /** There is a connection that has not said yet who it is. */
  onUnknown(gate: AuthFilter): void;
  /** Now it has; `before` is for whom it was taken until now. */
  onKnown(gate: AuthFilter, before: Identity | undefined): void;
  /** It was refused. `isCounted`: for a secret, and `identify` has counted that as a failure. */
  onFailure(isCounted: boolean): void;
  /** There is something to do for the thread. */
  wake(): void;
}

/** Our own commands that touch no other tube than the one that they name, or those of what the connection was given. */
const EXTENSIONS_IN_A_TUBE: ReadonlySet<number> = new Set([
  Op.PutInTube,
  Op.ListJobs,
  Op.ClearTube,
  Op.InspectTube,
  Op.InspectJob,
  Op.ReserveBatch,
  Op.DeleteBatch,
  Op.TouchAll,
  Op.Extensions,
]);
const EXTENSION_OPS: ReadonlySet<number> = new Set(EXTENSIONS.map(({ op }) => op));

/** What is known of the secret that was told last. */
type Verdict = { readonly identity: Identity | undefined } | "pending";

export class AuthFilter extends ForwardingHandler implements Gate {
  readonly #keeper: Admission;
  readonly #reserved: ReservedIds;
  #connection!: FilteredConnection;
  #identity: Identity | undefined;
  #verdict: Verdict | undefined;
  /** All that it watches is of its tubes: it was let watch the rest since that was found. */
  #watchesOwn = false;
  /** It may hold jobs that were given to it for another token. */
  #holdsFormer = false;

  constructor(keeper: Admission, reserved: ReservedIds) {
    super();
    this.#keeper = keeper;
    this.#reserved = reserved;
  }

  /** It is known before its first line, by its certificate. */
  welcome(identity: Identity): void {
    this.#identity = identity;
  }

  guard(connection: FilteredConnection): LineHandler {
    this.#connection = connection;
    this.inner = connection;
    if (this.#identity === undefined) this.#keeper.onUnknown(this);
    else this.#keeper.onKnown(this, undefined);
    return this;
  }

  /** Who it is; undefined until that is known. */
  get identity(): Identity | undefined {
    return this.#identity;
  }

  /** It has said who it is, and that is being checked. */
  get isBeingChecked(): boolean {
    return this.#verdict === "pending";
  }

  /** Ends it with UNAUTHORIZED, whatever it waits for: its token was taken away, or has ended. */
  revoke(): void {
    this.#connection.cut(Reply.unauthorized);
  }

  /** Ends it with UNAUTHORIZED if it has not said yet who it is. */
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
      return request.op === Op.Quit ? super.onLine(bytes, start, end, again) : this.#turnAway();
    }
    // What is malformed does nothing, and is answered as everywhere.
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

  /** A token that was good once is not a guess. */
  #turnAway(isGuess = this.#identity === undefined, isCounted = false): boolean {
    const ended = this.#connection.refuseAndEnd(Reply.unauthorized);
    if (ended && isGuess) this.#keeper.onFailure(isCounted);
    return ended;
  }

  // --- who it is ----------------------------------------------------------------------------------------------

  #auth(syntax: Syntax, { body }: Request): boolean {
    if (syntax !== Syntax.Ok) return this.#turnAway(true);
    if (this.#verdict === "pending") return false;
    const verdict = this.#verdict ?? this.#ask(latin1(body.bytes, body.start, body.end));
    this.#verdict = verdict;
    if (verdict === "pending") return false;
    const { identity } = verdict;
    const before = this.#identity;
    const isOther = identity !== undefined && before !== undefined && !isSameToken(identity, before);
    // What was asked before is answered for the former token, and its jobs are known as such.
    if (isOther && !this.#connection.isAnswered) return false;
    const done =
      identity === undefined ? this.#turnAway(true, true) : this.#connection.refuse(Reply.authenticated);
    if (!done) return false;
    this.#verdict = undefined;
    this.#identity = identity;
    if (isOther) this.#forgetFormer();
    this.#keeper.onKnown(this, before);
    return true;
  }

  /** What another token was let watch and was given is none of the present one's. */
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

  // --- what it may do -----------------------------------------------------------------------------------------

  #may(identity: Identity, request: Request): boolean {
    const needed = COMMAND_PERMISSIONS[request.op as keyof typeof COMMAND_PERMISSIONS];
    if (needed !== 0 && (identity.permissions & needed) === 0) return false;
    return identity.tubes === undefined || this.#mayTouch(identity, request);
  }

  /** Whether a token that is limited to some tubes may do this: what is not known to stay within them is refused. */
  #mayTouch(identity: Identity, request: Request): boolean {
    const { tube, op } = request;
    if (EXTENSION_OPS.has(op) && !EXTENSIONS_IN_A_TUBE.has(op)) return false;
    const named = (): boolean => mayTouchTube(identity, latin1(tube.bytes, tube.start, tube.end));
    switch (ROUTE_OF[op]) {
      case Route.Put:
        return tube.length > 0 ? named() : mayTouchTube(identity, this.#connection.usedTube);
      case Route.UsedTube:
        return mayTouchTube(identity, this.#connection.usedTube);
      case Route.NamedTubes:
        // No glob is asked whether it means all tubes: `?` would match.
        return !isEveryTube(tube) && named();
      case Route.NamedTube:
      case Route.TubeSet:
        return op === Op.Ignore || named();
      case Route.Reserve:
        return this.#mayReserve(identity, request);
      case Route.Job:
        return this.#reserved.has(request.id);
      case Route.Jobs:
        return this.#hasAll(new IdList(request.body));
      case Route.Held:
        this.#holdsFormer &&= !this.#connection.isQuiet;
        return !this.#holdsFormer;
      case Route.End:
        return true;
      default:
        return op === Op.ListTubeUsed || op === Op.ListTubesWatched || op === Op.Extensions;
    }
  }

  /** Whether all jobs were given to it. */
  #hasAll(ids: IdList): boolean {
    while (ids.next()) if (!this.#reserved.has(ids.id)) return false;
    return true;
  }

  /** It was let watch all that it watches, but for the tube that everybody watches at first, and those of a token before. */
  #mayReserve(identity: Identity, { op, options }: Request): boolean {
    const isKnown = op === Op.Reserve || op === Op.ReserveWithTimeout || op === Op.ReserveBatch;
    if (!isKnown && options.length > 0) return false;
    this.#watchesOwn ||= this.#connection.watchedTubes.every(({ name }) => mayTouchTube(identity, name));
    return this.#watchesOwn;
  }

  override onBadLine(): boolean {
    return this.#identity === undefined ? this.#turnAway() : super.onBadLine();
  }
}

/** The jobs that a command deletes. */
function deletedBy({ op, id, body }: Request): number[] {
  if (op === Op.Delete) return [id];
  const deleted: number[] = [];
  if (op !== Op.DeleteBatch) return deleted;
  const ids = new IdList(body);
  while (ids.next()) deleted.push(ids.id);
  return deleted;
}
