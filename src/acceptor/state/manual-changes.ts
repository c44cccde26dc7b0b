// The audit of an acceptor: commands that change something by hand, from their line to their reply.
// A flood of them slows no client: what is above the rate is counted and not recorded.

import { latin1 } from "../../base/bytes.ts";
import type { ManualChange } from "../../message/manual-change.ts";
import { BY_HAND, ByHand, commandName, FIELDS, Op, ROWS, Route } from "../../protocol/commands.ts";

/** Changes recorded in a second, per acceptor. */
const CHANGES_PER_SECOND = 100;
/** The part of a reply that can name a count. */
const REPLY_BYTES_MAX = 64;

/** The client, as the audit names it. */
interface Changer {
  readonly owner: string | undefined;
  /** Address and port, or "unix". */
  readonly peer: string | undefined;
  readonly used: { readonly name: string };
}

/** A command under way, whose reply decides whether it is recorded. */
export interface CommandByHand {
  readonly op: number;
  readonly change: ManualChange;
}

export class ManualChanges {
  readonly #nowMs: () => number;
  readonly #wallMs: () => number;
  readonly #tell: (change: ManualChange) => void;
  readonly #drop: () => void;
  #sinceMs = Number.NEGATIVE_INFINITY;
  #count = 0;

  constructor(
    { nowMs, wallMs }: { nowMs: () => number; wallMs: () => number },
    tell: (change: ManualChange) => void,
    drop: () => void,
  ) {
    this.#nowMs = nowMs;
    this.#wallMs = wallMs;
    this.#tell = tell;
    this.#drop = drop;
  }

  /** Returns whether the rate permits one more record. */
  get hasRoom(): boolean {
    const nowMs = this.#nowMs();
    if (nowMs >= this.#sinceMs + 1000) {
      this.#sinceMs = nowMs;
      this.#count = 0;
    }
    return this.#count < CHANGES_PER_SECOND;
  }

  /** Counts a change that is not recorded. */
  drop(): void {
    this.#drop();
  }

  /** Takes back `begin`, for a command that has to wait. */
  cancel(): void {
    this.#count--;
  }

  begin(op: number, client: Changer, bytes: Uint8Array, start: number, end: number): CommandByHand {
    this.#count++;
    const change = {
      atMs: this.#wallMs(),
      who: client.owner ?? null,
      address: client.peer === undefined || client.peer === "unix" ? null : hostOf(client.peer),
      way: "protocol" as const,
      method: commandName(ROWS[op]!),
      route: "",
      what: valuesOf(op, latin1(bytes, start, end), client.used.name),
      before: op === Op.SetTube ? {} : null,
      affected: null,
      status: 200,
    };
    return { op, change };
  }

  /** Notes which of these settings, in the form of set-tube, the command changes. */
  replaced({ change }: CommandByHand, settings: string): void {
    const pairs = settings.split(" ").map((setting) => setting.split("=", 2) as [string, string]);
    change.before = Object.fromEntries(pairs.filter(([name]) => Object.hasOwn(change.what, name)));
  }

  /** Records the command if its reply says that it was done. */
  answered({ op, change }: CommandByHand, bytes: Uint8Array, start: number, length: number): void {
    const [word, count = ""] = latin1(bytes, start, start + Math.min(length, REPLY_BYTES_MAX)).split(/[ \r]/);
    const [usual, counted] = ROWS[op]!.replies[0]!.split(" ");
    // A held job is cancelled, too.
    if (word !== usual && word !== "CANCELLING") return;
    if (counted === "<count>" || counted === "<deleted>") change.affected = Number(count);
    this.#tell(change);
  }

  /** Records a command whose client left before the reply. It may have been done. */
  unanswered({ change }: CommandByHand): void {
    this.#tell({ ...change, what: { ...change.what, unanswered: "true" } });
  }
}

/**
 * Returns whether a connection that holds jobs, or none, changes something by hand with this op.
 */
export const isByHand = (op: number, holdsJobs: boolean): boolean =>
  BY_HAND[op] === ByHand.Always || (BY_HAND[op] === ByHand.WithoutJobs && !holdsJobs);

function valuesOf(op: number, line: string, usedTube: string): Record<string, string> {
  const { word, args, route } = ROWS[op]!;
  const words = line
    .slice(word.length)
    .split(" ")
    .filter((each) => each !== "");
  const what: Record<string, string> = route === Route.UsedTube ? { tube: usedTube } : {};
  for (const field of FIELDS[args])
    what[field] = (field === "ids" ? words.splice(0) : words.splice(0, 1)).join(",");
  for (const option of words) {
    const equals = option.indexOf("=");
    if (equals < 0) what[option] = "true";
    else what[option.slice(0, equals)] = option.slice(equals + 1);
  }
  return what;
}

/** Returns an address without its port. */
const hostOf = (peer: string): string => peer.replace(/:\d+$/, "").replace(/^\[(.*)\]$/, "$1");
