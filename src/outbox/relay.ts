// The relay of an outbox: puts each committed row of a table into the queue, once, and deletes it.
//
// A round takes rows in one transaction, puts them on one connection, and deletes what the server
// has answered:
//
//   lock the tubes -> lock and read rows by id -> put all -> wait for all replies -> delete, commit
//
// **Nothing is lost**: a row is deleted after its durable reply. **Nothing is doubled**: each row
// has a key of its own, which the server remembers, so a row that is put again after a kill, of
// whichever of the three, is answered DUPLICATE. **Order**: a tube belongs to one relay for the
// length of a round, and a relay puts its rows in the order of their ids. If a relay lingers whose
// session is lost, two of them put the same rows in the same order, and of each row the first put
// counts: that is the same order again.

import { setTimeout as sleep } from "node:timers/promises";
import type { Target } from "../cli/target.ts";
import { WireSession } from "../cli/wire-session.ts";
import {
  ConnectionLost,
  Draining,
  OutOfMemory,
  ProtocolError,
  ReplyError,
  TubeFull,
  Unauthorized,
} from "../client/errors.ts";
import { clientName } from "../client/link.ts";
import { KEY_OPTIONS, PUT_REPLIES, putLine } from "../client/put.ts";
import type { Reply } from "../client/wire.ts";
import { checkUrl, Database, DatabaseFailed, type DatabaseRow } from "./database.ts";
import { BODY_BYTES_MAX, statementsFor, type TableStatements } from "./table.ts";

/** Rows, bytes of bodies, and tubes of a round. */
const ROWS_A_ROUND = 4000;
const BYTES_A_ROUND = 4 << 20;
const TUBES_A_ROUND = 100;
/** Delay before the first new attempt after a failure, which doubles up to the last. */
const RETRY_MS = 50;
const RETRY_MS_MAX = 5000;
/** Growth of the number of rows that a tube may put at once, after the server refused one. */
const GROWTH = 4;
/** Time for the current round after a stop; a side that hangs takes longer. */
const STOP_MS = 5000;
/** Time between two lines about rows that are set aside. */
const TELL_MS = 1000;
const ERROR_LENGTH_MAX = 1000;

export interface RelayOptions {
  readonly target: Target;
  readonly databaseUrl: string;
  readonly table: string;
  /** How long the server remembers the key of a row. */
  readonly rememberSeconds: number;
  /** Time between two looks at the table without a notification. */
  readonly pollMs: number;
  readonly tell: (line: string) => void;
}

/** Counts since the start. */
interface RelayCounts {
  /** Rows that are in the queue now, those that it knew already included. */
  put: number;
  /** Of these, rows whose key, or whose own `unique`, was taken. */
  duplicates: number;
  /** Rows that were set aside. */
  refused: number;
  /** Refusals that have to do with the moment, such as TUBE_FULL; the rows are tried again. */
  deferred: number;
  /** Connections after the first one. */
  serverReconnects: number;
  databaseReconnects: number;
}

/** What became of a row. `later`: the server can't take it now. `lost`: there was no reply. */
interface Outcome {
  readonly id: string;
  readonly tube: string;
  readonly end: "put" | "duplicate" | "refused" | "later" | "lost";
  readonly error?: Error;
}

/** A tube of which the server has refused a row for now. */
interface Held {
  readonly untilMs: number;
  readonly delayMs: number;
  /** Rows that may be put at once. */
  readonly most: number;
}

/** A connection failed; the other side is all right. */
class SideFailed extends Error {
  readonly side: "server" | "database";

  constructor(side: "server" | "database", message: string) {
    super(message);
    this.side = side;
  }
}

export class Relay {
  readonly counts: RelayCounts = {
    put: 0,
    duplicates: 0,
    refused: 0,
    deferred: 0,
    serverReconnects: -1,
    databaseReconnects: -1,
  };
  readonly #options: RelayOptions;
  readonly #sql: TableStatements;
  #session: WireSession | undefined;
  #database: Database | undefined;
  readonly #stopping = new AbortController();
  /** There may be rows that the last look didn't see, or that had no room in their tube's turn. */
  #hasMore = true;
  #wake: (() => void) | undefined;
  /** Tubes that the last look found, and that have had no turn since. */
  #tubes: string[] = [];
  readonly #held = new Map<string, Held>();
  /**
   * Outcomes by key of rows that the server has answered and that may still be in the table,
   * because its connection broke. They aren't put again.
   */
  readonly #unrecorded = new Map<string, "put" | "duplicate">();
  #failures = 0;
  #lastProblem = "";
  #untold = 0;
  #toldAtMs = Number.NEGATIVE_INFINITY;

  /** Throws CommandFailed if `databaseUrl` is no URL. */
  constructor(options: RelayOptions) {
    checkUrl(options.databaseUrl);
    this.#options = options;
    this.#sql = statementsFor(options.table);
  }

  /** Tubes that wait because the server has refused one of their rows for now. */
  get heldTubes(): number {
    return this.#held.size;
  }

  get isServerConnected(): boolean {
    return this.#session !== undefined;
  }

  get isDatabaseConnected(): boolean {
    return this.#database !== undefined;
  }

  /** Relays until `stop`. Connections that break are made again without end. */
  async run(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      try {
        await this.#openDatabase();
        await this.#openSession();
        await this.#work();
      } catch (error) {
        if (!(error instanceof SideFailed)) throw error;
        await this.#lose(error);
      }
    }
    await Promise.all([this.#database?.close(), this.#session?.end().catch(() => {})]);
  }

  /** Ends `run` after the current round. A side that doesn't answer is dropped. */
  stop(): void {
    this.#stopping.abort();
    const drop = (): void => {
      this.#session?.drop();
      void this.#database?.close();
    };
    setTimeout(drop, STOP_MS).unref();
  }

  async #openDatabase(): Promise<void> {
    if (this.#database !== undefined) return;
    const { databaseUrl: url, target, table, tell } = this.#options;
    const onLost = (): void => this.#wake?.();
    const database = await onDatabase(Database.open({ url, limitMs: target.limitMs }, onLost));
    try {
      // Notifications first: a row between them and the first look would be missed otherwise.
      await onDatabase(
        database.listen(this.#sql.channel, () => {
          this.#hasMore = true;
          this.#wake?.();
        }),
      );
      await onDatabase(database.query(this.#sql.tubes));
    } catch (error) {
      await database.close();
      throw error;
    }
    this.#database = database;
    this.#hasMore = true;
    this.counts.databaseReconnects++;
    tell(`connected to PostgreSQL at ${database.where}, table ${table}`);
  }

  async #openSession(): Promise<void> {
    if (this.#session !== undefined) return;
    const { target, tell } = this.#options;
    const session = await onServer(WireSession.open(target));
    try {
      await onServer(session.needs("put-in-tube"));
      await onServer(session.ask(`name ${clientName(undefined, "outbox")}`, "NAMED"));
    } catch (error) {
      session.drop();
      throw error;
    }
    this.#session = session;
    this.counts.serverReconnects++;
    tell(`connected to the server at ${target.address}`);
  }

  /** Drops the side that failed, and waits. A problem that stays the same is told once. */
  async #lose({ side, message }: SideFailed): Promise<void> {
    if (side === "server") this.#session?.drop();
    else await this.#database?.close();
    if (side === "server") this.#session = undefined;
    else this.#database = undefined;
    this.#tubes = [];
    this.#hasMore = true;
    if (message !== this.#lastProblem) this.#options.tell(`${message}; trying again until it works`);
    this.#lastProblem = message;
    const delayMs = Math.min(RETRY_MS_MAX, RETRY_MS * 2 ** this.#failures++) * (1 - Math.random() / 2);
    // No notification ends this wait: many of them would be many attempts.
    await sleep(delayMs, undefined, { signal: this.#stopping.signal }).catch(() => {});
  }

  /** Waits; a notification, the end of the database's connection and a stop end it early. */
  async #idle(): Promise<void> {
    const woken = new AbortController();
    this.#wake = () => woken.abort();
    const signal = AbortSignal.any([woken.signal, this.#stopping.signal]);
    await sleep(this.#idleMs(), undefined, { signal }).catch(() => {});
    this.#wake = undefined;
  }

  async #work(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      if (this.#tubes.length === 0) {
        if (!this.#hasMore) await this.#idle();
        this.#hasMore = false;
        await this.#look();
      }
      const tubes = this.#tubes.splice(0, TUBES_A_ROUND);
      if (tubes.length > 0) this.#tubes.unshift(...(await this.#round(tubes)));
      this.#failures = 0;
      this.#lastProblem = "";
    }
  }

  /** Until the next look: the poll, or the end of the first tube's delay. */
  #idleMs(): number {
    const now = performance.now();
    let endsAtMs = now + this.#options.pollMs;
    // A tube whose delay is over and that still waits belongs to another relay.
    for (const { untilMs } of this.#held.values()) if (untilMs > now) endsAtMs = Math.min(endsAtMs, untilMs);
    return endsAtMs - now;
  }

  async #look(): Promise<void> {
    const found = await onDatabase(this.#database!.query(this.#sql.tubes));
    const all = new Set(found.map(({ tube }) => tube as string));
    // Also after rows were deleted by hand.
    for (const tube of this.#held.keys()) if (!all.has(tube)) this.#release(tube);
    if (all.size === 0) this.#unrecorded.clear();
    const now = performance.now();
    this.#tubes = [...all].filter((tube) => (this.#held.get(tube)?.untilMs ?? 0) <= now);
  }

  /**
   * Relays some rows of these tubes. Returns the tubes whose turn is still to come, because the
   * bytes of a round were used up. A tube with more rows waits for the next look, so that none
   * waits for the end of another one's backlog.
   */
  async #round(wanted: readonly string[]): Promise<string[]> {
    const database = this.#database!;
    const query = (text: string, values?: readonly unknown[]): Promise<readonly DatabaseRow[]> =>
      onDatabase(database.query(text, values));
    await query("BEGIN");
    const tubes = (await query(this.#sql.lock, [wanted])).map(({ tube }) => tube as string);
    const share = Math.ceil(ROWS_A_ROUND / Math.max(1, tubes.length));
    const most = tubes.map((tube) => Math.min(share, this.#held.get(tube)?.most ?? share));
    const found = tubes.length === 0 ? [] : await query(this.#sql.take, [tubes, most, BYTES_A_ROUND]);
    const outcomes = await this.#putAll(found);
    const put = outcomes.filter(({ end }) => end === "put" || end === "duplicate");
    const refused = outcomes.filter(({ end }) => end === "refused");
    const ids = (some: readonly Outcome[]): string[] => some.map(({ id }) => id);
    if (put.length > 0) await query(this.#sql.remove, [ids(put)]);
    if (refused.length > 0)
      await query(this.#sql.setAside, [ids(refused), refused.map(({ error }) => errorText(error))]);
    await query("COMMIT");
    for (const { key } of found) this.#unrecorded.delete(key as string);
    this.#count(put, refused);
    this.#pace(outcomes);
    const lost = outcomes.find(({ end }) => end === "lost");
    if (lost !== undefined) throw new SideFailed("server", lost.error!.message);
    const taken = Map.groupBy(found, ({ tube }) => tube as string);
    const isCut = found.reduce((bytes, row) => bytes + Number(row["bytes"]), 0) >= BYTES_A_ROUND;
    const end = isCut ? tubes.indexOf(found.at(-1)!["tube"] as string) + 1 : tubes.length;
    const now = performance.now();
    const hasMore = (tube: string, index: number): boolean =>
      ((isCut && index === end - 1) || taken.get(tube)?.length === most[index]) &&
      (this.#held.get(tube)?.untilMs ?? 0) <= now;
    this.#hasMore ||= tubes.slice(0, end).some(hasMore);
    return tubes.slice(end);
  }

  /** Resolves when each row has an outcome. */
  async #putAll(found: readonly DatabaseRow[]): Promise<Outcome[]> {
    let outcomes = await Promise.all(found.map((row) => this.#put(row)));
    if (outcomes.some(isDenied) && (await this.#isTokenGone(outcomes)))
      outcomes = outcomes.map((each) => (isDenied(each) ? { ...each, end: "lost" } : each));
    for (const [index, { end }] of outcomes.entries())
      if (end === "put" || end === "duplicate") this.#unrecorded.set(found[index]!["key"] as string, end);
    return outcomes;
  }

  /** When a token is revoked, the server answers the oldest command with that, and closes. */
  async #isTokenGone(outcomes: readonly Outcome[]): Promise<boolean> {
    if (outcomes.some(({ end }) => end === "lost")) return true;
    return (await this.#session!.ask("extensions", "OK").catch((error) => error)) instanceof ConnectionLost;
  }

  /** Sends a put before it returns, so that puts go out in the order of the calls. */
  async #put(row: DatabaseRow): Promise<Outcome> {
    const { id, tube, key } = row as Readonly<Record<"id" | "tube" | "key", string>>;
    const known = this.#unrecorded.get(key);
    if (known !== undefined) return { id, tube, end: known };
    try {
      const { words } = await this.#send(row);
      return { id, tube, end: words[0] === "INSERTED" ? "put" : "duplicate" };
    } catch (error) {
      return { id, tube, end: endOf(error), error: error as Error };
    }
  }

  /** Throws for a row that can't be a put, before anything is sent. */
  #send(row: DatabaseRow): Promise<Reply> {
    const { bytes, body, body_bytes: bodyBytes, options } = row;
    const { rememberSeconds } = this.#options;
    if (Number(bytes) > BODY_BYTES_MAX)
      throw new RangeError(`the body has ${bytes} bytes, and the relay puts up to ${BODY_BYTES_MAX}`);
    if ((body === null) === (bodyBytes === null))
      throw new TypeError("a row has either a body or body_bytes, and this one has both or none");
    if (!isObject(options)) throw new TypeError('options must be a JSON object, such as {"ttl": 3600}');
    if ("meta" in options && !isObject(options["meta"]))
      throw new TypeError('meta must be a JSON object, such as {"trace": "7"}');
    for (const column of ["pri", "delay", "ttr"])
      if (column in options) throw new TypeError(`${column} is a column of the table, and no option`);
    const job = typeof body === "string" ? Buffer.from(body) : (bodyBytes as Uint8Array);
    // A job has one key: the row's own replaces ours. What qualifies a key must not weaken ours.
    const others = Object.entries(options).filter(([name]) => !OF_KEYS.has(name));
    const ours = { ...Object.fromEntries(others), unique: row["key"] as string, uniqueFor: rememberSeconds };
    const { line, extras } = putLine(row["tube"] as string, job.length, {
      ...("unique" in options ? options : ours),
      pri: Number(row["pri"]),
      delay: Number(row["delay"]),
      ttr: Number(row["ttr"]),
    });
    return this.#session!.ask(line + extras, PUT_REPLIES, job);
  }

  #count(put: readonly Outcome[], refused: readonly Outcome[]): void {
    this.counts.put += put.length;
    this.counts.duplicates += put.filter(({ end }) => end === "duplicate").length;
    this.counts.refused += refused.length;
    this.#untold += refused.length;
    const [first] = refused;
    const now = performance.now();
    if (first === undefined || now - this.#toldAtMs < TELL_MS) return;
    const more = this.#untold === 1 ? "" : ` (and ${this.#untold - 1} more)`;
    this.#options.tell(`set aside row ${first.id} of tube ${first.tube}${more}: ${errorText(first.error)}`);
    this.#untold = 0;
    this.#toldAtMs = now;
  }

  /** Delays tubes that the server refused for now, and lets the others go faster again. */
  #pace(outcomes: readonly Outcome[]): void {
    const now = performance.now();
    for (const [tube, all] of Map.groupBy(outcomes, ({ tube }) => tube)) {
      const held = this.#held.get(tube);
      const later = all.filter(({ end }) => end === "later");
      if (later.length === 0) {
        if (held !== undefined && held.most * GROWTH < ROWS_A_ROUND)
          this.#held.set(tube, { untilMs: 0, delayMs: RETRY_MS, most: held.most * GROWTH });
        else this.#release(tube);
        continue;
      }
      this.counts.deferred += later.length;
      if (this.#held.size === 0)
        this.#options.tell(`tube ${tube} waits: ${errorText(later[0]!.error)}; other such tubes aren't told`);
      const delayMs = Math.min(RETRY_MS_MAX, (held?.delayMs ?? RETRY_MS) * 2);
      this.#held.set(tube, { untilMs: now + delayMs * (1 - Math.random() / 2), delayMs, most: 1 });
    }
  }

  #release(tube: string): void {
    if (this.#held.delete(tube) && this.#held.size === 0) this.#options.tell("no tube waits any more");
  }
}

const OF_KEYS: ReadonlySet<string> = new Set(KEY_OPTIONS);

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const isDenied = ({ error }: Outcome): boolean => error instanceof Unauthorized;

function endOf(error: unknown): Outcome["end"] {
  if (error instanceof ConnectionLost || error instanceof ProtocolError) return "lost";
  const isForNow = error instanceof OutOfMemory || error instanceof TubeFull || error instanceof Draining;
  return isForNow ? "later" : "refused";
}

/** The server's reply without the command. PostgreSQL's text has no NUL. */
function errorText(error: Error | undefined): string {
  const said = `${error?.message}`.replaceAll("\0", "");
  const at = error instanceof ReplyError ? said.indexOf(`: ${error.reply.split(" ")[0]}`) + 2 : 0;
  return said.slice(at, at + ERROR_LENGTH_MAX);
}

const on =
  (side: SideFailed["side"], what: string) =>
  async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await work;
    } catch (error) {
      throw new SideFailed(side, `${error instanceof DatabaseFailed ? "" : what}${(error as Error).message}`);
    }
  };

const onServer = on("server", "the server: ");
const onDatabase = on("database", "PostgreSQL: ");
