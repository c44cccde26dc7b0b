// `shadow`: serves clients from their old server, repeats their commands to a new one, and reports
// the differences.

import { createWriteStream, type WriteStream } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import { printableLines } from "../../base/text.ts";
import { dialer, isValidAt, type Origins, originsIn } from "../../client/wire.ts";
import { commandName, EXTENSIONS } from "../../protocol/commands.ts";
import { U32_MAX } from "../../protocol/limits.ts";
import { interval, whole } from "../argument.ts";
import { CommandFailed, ExitCode, tell } from "../output.ts";
import { newCommand, withTarget } from "../run.ts";
import { listenOn, type TargetOptions, targetOf } from "../target.ts";
import {
  bodyOfCommand,
  bodyOfReply,
  dependsOnOthers,
  differenceOf,
  type WirePart,
  WireSplitter,
} from "./wire-streams.ts";

// Maps the ids of jobs on the old server to ids on the new one. A new server that was restarted
// without its log gives the same ids to other jobs: an id counts only on servers that continue the
// log of the one that gave it.

const IDS_MAX = 1_000_000;

interface ShadowJob {
  readonly id: number;
  /** The new server that gave the id. */
  readonly giver: string | undefined;
}

export class JobIdMap {
  readonly #shadowOf = new Map<string, ShadowJob>();
  #first = Number.POSITIVE_INFINITY;
  /** Jobs for which the map had no room. */
  unmapped = 0;

  /** Records a put that a new server with these origins answered. */
  note(old: string, shadow: string, known: Origins): void {
    this.saw(old);
    const [giver] = known.keys();
    if (this.#shadowOf.size < IDS_MAX || this.#shadowOf.has(old))
      this.#shadowOf.set(old, { id: Number(shadow), giver });
    else this.unmapped++;
  }

  /** Records that the old server answered a put, so that older ids can be recognised. */
  saw(old: string): void {
    this.#first = Math.min(this.#first, Number(old));
  }

  forget(old: string): void {
    this.#shadowOf.delete(old);
  }

  /** Returns the id on a new server with these origins. */
  shadowOf(old: string, known: Origins): number | undefined {
    const job = this.#shadowOf.get(old);
    return job !== undefined && isValidAt(known, job.giver, job.id) ? job.id : undefined;
  }

  /**
   * Returns whether the new server will never have the job under a known id: it was put before the
   * first put that the shadow saw, the map had no room for it, or another new server got it.
   */
  isUnknowable(old: string): boolean {
    return this.isOlder(old) || this.#shadowOf.has(old) || this.#shadowOf.size >= IDS_MAX;
  }

  /** Returns whether the job was there before the first put that the shadow saw. */
  isOlder(old: string): boolean {
    return Number(old) < this.#first;
  }
}

// The report of a shadow: differences as JSON lines, and a summary. A reader that stalls loses
// lines and never holds anything up.

const STDOUT = 1;
/** Maximum of unwritten bytes. */
const PENDING_BYTES_MAX = 1 << 20;

interface ShadowCounts {
  connections: number;
  /** Connections that are no longer shadowed. */
  dropped: number;
  commands: number;
  same: number;
  different: number;
  /**
   * Commands that can't be repeated or compared: waits that ended without a job, those on older
   * jobs, and those that the old server doesn't know.
   */
  skipped: number;
}

export class ShadowReport {
  readonly counts: ShadowCounts = {
    connections: 0,
    dropped: 0,
    commands: 0,
    same: 0,
    different: 0,
    skipped: 0,
  };
  #lost = 0;
  /** The thread pool writes it: a write to a pipe through process.stdout would block. */
  readonly #output: WriteStream = createWriteStream("", { fd: STDOUT, autoClose: false });

  constructor() {
    this.#output.on("error", () => {});
  }

  write(event: string, fields: Readonly<Record<string, unknown>>): void {
    if (this.#output.destroyed || this.#output.writableLength > PENDING_BYTES_MAX) {
      this.#lost++;
      return;
    }
    const line = JSON.stringify({ event, at: new Date().toISOString(), ...fields });
    this.#output.write(`${printableLines(line)}\n`);
  }

  summary(unmapped: number): void {
    this.write("summary", { ...this.counts, unmapped, linesLost: this.#lost });
  }

  /** Resolves when everything is written, or after `limitMs`. */
  end(limitMs: number): Promise<void> {
    return new Promise((resolve) => {
      setTimeout(resolve, limitMs).unref();
      this.#output.end(() => resolve());
    });
  }
}

// The shadow of one connection: repeats its commands to the new server, in order, once the old
// server has answered them, and compares the replies. Nothing waits for it.

/** Maximum of commands, and of their bytes with the old server's replies, that wait. */
const QUEUE_COMMANDS_MAX = 10_000;
const QUEUE_BYTES_MAX: number = 16 << 20;
/** The same for all connections, including unfinished commands and replies in the streams. */
const ALL_BYTES_MAX: number = 256 << 20;
/** Approximate memory of a waiting command beside its bytes. */
const EXCHANGE_BYTES = 300;
/** Silence of the new server after which the connection is no longer shadowed, ms. */
const REPLY_MS_MAX = 10_000;
/** Maximum delay of another connection's command on the same job, ms. */
const LATE_MS_MAX = 1000;
const LATE_LOOK_MS = 10;
const SHOWN_MAX = 200;
/** Larger than any reply for which the queue has room. */
const REPLY_BYTES_MAX: number = 2 * QUEUE_BYTES_MAX;
const ON_JOB = /^(delete|release|bury|touch|kick-job|peek|stats-job|reserve-job) (\d+)(.*)$/;
const JOB_IN_REPLY = /^(?:INSERTED|BURIED|RESERVED|FOUND) (\d+)/;

const EXTENSION_WORDS: ReadonlySet<string> = new Set(EXTENSIONS.map(commandName));

interface Exchange {
  readonly command: WirePart;
  readonly reply: WirePart;
  readonly bytes: number;
}

/** Bytes that all connections of a shadow hold for the new server. */
export class HeldBytes {
  readonly #max: number;
  #bytes = 0;

  constructor(max: number = ALL_BYTES_MAX) {
    this.#max = max;
  }

  get isOver(): boolean {
    return this.#bytes > this.#max;
  }

  add(bytes: number): void {
    this.#bytes += bytes;
  }
}

interface ShadowOptions {
  readonly held: HeldBytes;
  readonly dial: () => Promise<Socket>;
  readonly token: string | undefined;
  readonly ids: JobIdMap;
  readonly report: ShadowReport;
  /** For the report. */
  readonly client: string;
}

export class ShadowConnection {
  readonly #options: ShadowOptions;
  readonly #commands = new WireSplitter(bodyOfCommand, QUEUE_BYTES_MAX);
  readonly #replies = new WireSplitter(bodyOfReply, QUEUE_BYTES_MAX);
  /** Commands that the old server hasn't answered. */
  readonly #asked: WirePart[] = [];
  #askedBytes = 0;
  /** Answered commands that were not sent to the new server yet. */
  readonly #queue: Exchange[] = [];
  #queuedBytes = 0;
  /** The bytes of this connection that `held` counts. */
  #countedBytes = 0;
  #isWorking = false;
  #isDropped = false;
  #hasEnded = false;
  #socket: Socket | undefined;
  /** The new server, and those whose log it continues. */
  #known: Origins = new Map();
  readonly #answers = new WireSplitter(bodyOfReply, REPLY_BYTES_MAX);
  #onAnswer: ((part: WirePart) => void) | undefined;

  constructor(options: ShadowOptions) {
    this.#options = options;
    options.report.counts.connections++;
  }

  /** Takes bytes from the client, which the proxy has already passed on. */
  fromClient(bytes: Buffer): void {
    this.#guarded(() => {
      for (const command of this.#commands.take(bytes)) {
        if (command.line === "quit") continue;
        this.#asked.push(command);
        this.#askedBytes += bytesOf(command);
        this.#bound();
      }
    });
  }

  /** Takes bytes from the old server. */
  fromOld(bytes: Buffer): void {
    this.#guarded(() => {
      for (const reply of this.#replies.take(bytes)) {
        const command = this.#asked.shift();
        if (command === undefined) throw new Error("the old server sent one reply too many");
        this.#askedBytes -= bytesOf(command);
        const id = /^INSERTED (\d+)$/.exec(reply.line)?.[1];
        if (id !== undefined) this.#options.ids.saw(id);
        const exchange = { command, reply, bytes: bytesOf(command) + bytesOf(reply) };
        this.#queue.push(exchange);
        this.#queuedBytes += exchange.bytes;
        this.#bound();
      }
      if (!this.#isWorking) void this.#work();
    });
  }

  /** The client or the old server closed the connection; waiting commands are still repeated. */
  end(): void {
    this.#hasEnded = true;
    if (this.#isWorking) return;
    this.#release();
    this.#socket?.destroy();
  }

  #guarded(act: () => void): void {
    if (this.#isDropped) return;
    try {
      act();
      this.#count();
      if (this.#options.held.isOver)
        throw new Error("too many bytes of all connections wait for the new server");
    } catch (error) {
      this.#drop((error as Error).message);
    }
  }

  #count(): void {
    const waiting = this.#asked.length + this.#queue.length;
    const bytes =
      this.#askedBytes +
      this.#queuedBytes +
      waiting * EXCHANGE_BYTES +
      this.#commands.heldBytes +
      this.#replies.heldBytes +
      this.#answers.heldBytes;
    this.#options.held.add(bytes - this.#countedBytes);
    this.#countedBytes = bytes;
  }

  #release(): void {
    this.#asked.length = 0;
    this.#queue.length = 0;
    this.#askedBytes = this.#queuedBytes = 0;
    for (const splitter of [this.#commands, this.#replies, this.#answers]) splitter.clear();
    this.#count();
  }

  #bound(): void {
    const waiting = this.#asked.length + this.#queue.length;
    if (waiting > QUEUE_COMMANDS_MAX || this.#askedBytes + this.#queuedBytes > QUEUE_BYTES_MAX)
      throw new Error(`the new server is too slow: ${waiting} commands wait for it`);
  }

  #drop(why: string): void {
    if (this.#isDropped) return;
    this.#isDropped = true;
    this.#release();
    this.#socket?.destroy();
    const { report, client } = this.#options;
    report.counts.dropped++;
    report.write("dropped", { client, why });
  }

  async #work(): Promise<void> {
    this.#isWorking = true;
    try {
      this.#socket ??= await this.#connect();
      for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
        this.#queuedBytes -= next.bytes;
        this.#count();
        await this.#repeat(next);
        if (this.#isDropped) return;
      }
    } catch (error) {
      this.#drop((error as Error).message);
    } finally {
      this.#isWorking = false;
      if (this.#hasEnded || this.#isDropped) {
        this.#release();
        this.#socket?.destroy();
      }
    }
  }

  async #connect(): Promise<Socket> {
    const { dial, token } = this.#options;
    const socket = await dial();
    const gone = (): void => this.#drop("the new server closed the connection");
    socket.on("error", gone);
    socket.on("close", () => {
      if (!this.#hasEnded || this.#isWorking) gone();
    });
    socket.on("data", (bytes: Buffer) =>
      this.#guarded(() => {
        for (const answer of this.#answers.take(bytes)) this.#onAnswer?.(answer);
      }),
    );
    this.#socket = socket;
    if (token !== undefined) {
      const { line } = await this.#ask({ line: `auth ${token}`, body: undefined });
      if (line !== "AUTHENTICATED") throw new Error(`the new server rejects the token: ${line}`);
    }
    this.#known = await this.#askOrigins();
    return socket;
  }

  async #askOrigins(): Promise<Origins> {
    const { line, body } = await this.#ask({ line: "origins", body: undefined });
    if (line.startsWith("OK")) return originsIn(body, true);
    // Another beanstalkd.
    return originsIn((await this.#ask({ line: "stats", body: undefined })).body, false);
  }

  #ask({ line, body }: WirePart): Promise<WirePart> {
    return new Promise((resolve, reject) => {
      const socket = this.#socket!;
      const finish = (): void => {
        clearTimeout(timer);
        socket.off("close", onClose);
        this.#onAnswer = undefined;
      };
      const fail = (why: string): void => {
        finish();
        reject(new Error(why));
      };
      const onClose = (): void => fail("the new server closed the connection");
      const timer = setTimeout(() => fail("the new server does not answer"), REPLY_MS_MAX);
      if (socket.destroyed) return onClose();
      socket.on("close", onClose);
      this.#onAnswer = (answer) => {
        finish();
        resolve(answer);
      };
      socket.write(`${line}\r\n`, "latin1");
      if (body !== undefined) socket.write(Buffer.concat([body, Buffer.from("\r\n")]));
    });
  }

  async #repeat({ command, reply }: Exchange): Promise<void> {
    const { counts } = this.#options.report;
    counts.commands++;
    const line = await this.#translated(command, reply);
    if (line === undefined) counts.skipped++;
    else {
      const answer = await this.#askInTime({ line, body: command.body }, reply);
      const wrong = this.#check(command, reply, answer);
      if (wrong === undefined) counts.same++;
      else this.#tell(wrong, command, reply, answer);
    }
    if (command.line.startsWith("delete ") && reply.line === "DELETED")
      this.#options.ids.forget(ON_JOB.exec(command.line)?.[2] ?? "");
  }

  /**
   * Returns the command for the new server, or undefined if it can't be repeated. A reserve becomes
   * a reserve of the job that the old server chose, because two servers with several clients choose
   * differently.
   */
  async #translated({ line }: WirePart, reply: WirePart): Promise<string | undefined> {
    // Clients ask each server what it is and has: the answers belong to one server.
    if (/^(?:extensions|origins)$/.test(line)) return undefined;
    if (reply.line === "UNKNOWN_COMMAND" && EXTENSION_WORDS.has(line.split(" ", 1)[0]!)) return undefined;
    const isReserve = /^reserve(?:$|-with-timeout )/.test(line);
    const reserved = /^RESERVED (\d+)/.exec(reply.line)?.[1];
    if (isReserve && reserved === undefined)
      return /^(?:TIMED_OUT|DEADLINE_SOON)$/.test(reply.line) ? undefined : line;
    const [, word, id, rest] = isReserve ? ["", "reserve-job", reserved, ""] : (ON_JOB.exec(line) ?? []);
    if (id === undefined) return line;
    const shadow = await this.#shadowOf(id, reply);
    return shadow === undefined ? undefined : `${word} ${shadow}${rest}`;
  }

  /** Another connection's put may be on its way. */
  async #shadowOf(id: string, reply: WirePart): Promise<number | undefined> {
    const { ids } = this.#options;
    const untilMs = performance.now() + LATE_MS_MAX;
    for (;;) {
      const shadow = ids.shadowOf(id, this.#known);
      const isHopeless = reply.line === "NOT_FOUND" || ids.isUnknowable(id);
      if (shadow !== undefined || isHopeless || performance.now() > untilMs) return shadow;
      await sleep(LATE_LOOK_MS);
    }
  }

  /** Retries for a while: another connection's command on the same job may be late. */
  async #askInTime(command: WirePart, reply: WirePart): Promise<WirePart> {
    const untilMs = performance.now() + LATE_MS_MAX;
    for (;;) {
      const answer = await this.#ask(command);
      const isLate = answer.line === "NOT_FOUND" && reply.line !== "NOT_FOUND";
      if (!isLate || performance.now() > untilMs) return answer;
      await sleep(LATE_LOOK_MS);
    }
  }

  #check(command: WirePart, reply: WirePart, answer: WirePart): string | undefined {
    const { ids } = this.#options;
    const old = JOB_IN_REPLY.exec(reply.line)?.[1];
    const shadow = JOB_IN_REPLY.exec(answer.line)?.[1];
    if (command.line.startsWith("put ") && old !== undefined && shadow !== undefined)
      ids.note(old, shadow, this.#known);
    else if (old !== undefined && shadow !== undefined && !ids.isOlder(old)) {
      if (ids.shadowOf(old, this.#known) !== Number(shadow)) return "different job";
    }
    return differenceOf(command.line, reply, answer);
  }

  #tell(what: string, command: WirePart, old: WirePart, shadow: WirePart): void {
    const { report, client } = this.#options;
    report.counts.different++;
    report.write("difference", {
      client,
      what,
      // Without other connections, or for a command on one job, the difference is certain.
      sure: !dependsOnOthers(command.line) || report.counts.connections === 1,
      command: shown(command),
      old: shown(old),
      new: shown(shadow),
    });
  }
}

const bytesOf = ({ line, body }: WirePart): number =>
  line.length + 2 + (body === undefined ? 0 : body.length + 2);

function shown({ line, body }: WirePart): string {
  const text = body === undefined ? line : `${line}\r\n${body.toString("latin1", 0, SHOWN_MAX)}`;
  return text.slice(0, SHOWN_MAX);
}

// Proxy of a shadow: clients talk to the old server, byte for byte, as if the proxy weren't there.

interface ShadowProxyOptions {
  readonly dialOld: () => Promise<Socket>;
  readonly dialNew: () => Promise<Socket>;
  readonly token: string | undefined;
  readonly maxConnections: number;
  readonly ids: JobIdMap;
  readonly report: ShadowReport;
  readonly onProblem: (message: string) => void;
}

/** Returns a server; the caller makes it listen. */
function createShadowProxy(options: ShadowProxyOptions): Server {
  const { dialOld, dialNew, token, ids, report, onProblem } = options;
  const held = new HeldBytes();
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true, noDelay: true }, (client) => {
    client.on("error", () => client.destroy());
    const name = `${client.remoteAddress ?? "unix"}:${client.remotePort ?? ""}`;
    dialOld().then(
      (old) =>
        join(client, old, new ShadowConnection({ held, dial: dialNew, token, ids, report, client: name })),
      (error: Error) => {
        onProblem(`rejected a client: ${error.message}`);
        client.destroy();
      },
    );
  });
  server.maxConnections = options.maxConnections;
  return server;
}

/** Passes bytes on first, then shows them to the shadow. */
function join(client: Socket, old: Socket, shadow: ShadowConnection): void {
  old.allowHalfOpen = true;
  old.on("error", () => old.destroy());
  const end = (): void => {
    client.destroy();
    old.destroy();
    shadow.end();
  };
  if (client.destroyed || old.destroyed) {
    end();
    return;
  }
  client.on("close", end);
  old.on("close", end);
  client.pipe(old);
  old.pipe(client);
  // Added after pipe's listener, so that each piece is written before the shadow looks at it.
  client.on("data", (bytes: Buffer) => shadow.fromClient(bytes));
  old.on("data", (bytes: Buffer) => shadow.fromOld(bytes));
  client.resume();
}

const DIAL_MS = 10_000;
const REPORT_END_MS = 2000;

interface ShadowCommandOptions extends TargetOptions {
  readonly listen: string;
  readonly old: string;
  readonly new: string;
  readonly every: string;
  readonly maxConnections: string;
}

export function shadowCommand(): Command {
  return newCommand(
    "shadow",
    "serve clients from an old server, repeat their commands to a new one, and report what differs",
    {},
    ["url", "timeout", "json"],
  )
    .requiredOption("--old <url>", "the server that clients use now, such as beanstalk://127.0.0.1:11301")
    .requiredOption("--new <url>", "the server to try; --token and --ca are for it")
    .option("--listen <address>", "where clients connect: host:port or unix:PATH", "127.0.0.1:11300")
    .option("--every <time>", "print a summary at this interval", interval, "60")
    .option("--max-connections <n>", "maximum number of connections", whole(1, U32_MAX), "10000")
    .action((options: ShadowCommandOptions) =>
      withTarget({ ...options, url: options.new }, async (target) => {
        const old = targetOf({ url: options.old }, {});
        for (const { kind } of [target, old])
          if (kind !== "wire")
            throw new CommandFailed(
              "--old and --new take beanstalk://host:port or tls://host:port",
              ExitCode.BadArguments,
            );
        const report = new ShadowReport();
        const ids = new JobIdMap();
        const server = createShadowProxy({
          dialOld: dialer(old.address, undefined, DIAL_MS),
          dialNew: dialer(target.address, target.ca === undefined ? undefined : { ca: target.ca }, DIAL_MS),
          token: target.token,
          maxConnections: Number(options.maxConnections),
          ids,
          report,
          onProblem: tell,
        });
        const timer = setInterval(() => report.summary(ids.unmapped), Number(options.every) * 1000);
        const close = async (): Promise<void> => {
          clearInterval(timer);
          server.close();
          report.summary(ids.unmapped);
          await report.end(REPORT_END_MS);
          process.exit(report.counts.different + report.counts.dropped === 0 ? 0 : ExitCode.Nothing);
        };
        for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => void close());
        const where = await listenOn(server, options.listen);
        tell(`runnerbean shadow listens on ${where} for ${old.address}, with ${target.address} beside it`);
      }),
    );
}
