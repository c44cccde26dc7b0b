// One connection of the soak, which reports every command and every reply to the ledger.

import type { NetConnectOpts } from "node:net";
import { COMMANDS, commandName } from "../../src/protocol/commands.ts";
import { type Reply, WireClient } from "../support/server/wire-client.ts";
import type { ClientHost } from "./client-host.ts";
import type { Hold, JobEntry } from "./job-entry.ts";
import type { OpenPut } from "./ledger-book.ts";
import { type BodySpec, makeBody } from "./soak-body.ts";
import { Violation } from "./violation.ts";

/**
 * A reply takes no longer, whatever happens to the server short of its end; a busy machine
 * included.
 */
const REPLY_MS = 30_000;

const NAMES = COMMANDS.map(commandName);

export interface HeldJob {
  readonly job: JobEntry;
  readonly hold: Hold;
}

export interface PutOptions {
  readonly tube: string;
  readonly bytes: number;
  readonly pri: number;
  readonly delaySeconds: number;
  readonly ttrSeconds: number;
}

export class SoakClient {
  readonly name: string;
  readonly wire: WireClient;
  readonly #load: ClientHost;
  readonly #held = new Map<number, HeldJob>();
  /** Its connection was broken on purpose. */
  wasCut = false;
  #used = "default";
  /** Time at which this client closed its write side, ms, or Infinity. */
  #leftMs = Number.POSITIVE_INFINITY;

  constructor(name: string, wire: WireClient, load: ClientHost) {
    this.name = name;
    this.wire = wire;
    this.#load = load;
  }

  static async connect(name: string, address: NetConnectOpts, load: ClientHost): Promise<SoakClient> {
    return new SoakClient(name, await WireClient.connect(address), load);
  }

  get held(): readonly HeldJob[] {
    return [...this.#held.values()];
  }

  // --- commands that the ledger need not know ----------------------------------------------------

  /** Sends a line and reads its reply, which must match `expected`. */
  async ask(line: string, expected: RegExp): Promise<Reply> {
    const kind = NAMES.find((name) => name === line.split(" ")[0]) ?? "a wrong command";
    const { reply } = await this.#timed(kind, `${line}\r\n`);
    this.expect(line, reply, expected);
    return reply;
  }

  async readReply(): Promise<Reply> {
    return await this.wire.readReply(REPLY_MS);
  }

  expect(what: string, { line }: Reply, expected: RegExp): void {
    if (!expected.test(line))
      throw new Violation(`${this.name}: "${what.slice(0, 250)}" was answered "${line}"`);
  }

  async use(tube: string): Promise<void> {
    if (tube === this.#used) return;
    await this.ask(`use ${tube}`, /^USING /);
    this.#used = tube;
  }

  // --- put ---------------------------------------------------------------------------------------

  /** Sends a put without waiting for its answer. The tube is the one in use. */
  sendPut(options: PutOptions): OpenPut {
    const { tube, pri, delaySeconds, ttrSeconds } = options;
    const body = this.#load.ledger.newBody(tube, options.bytes, ttrSeconds);
    const put = this.#load.ledger.putSent(this.name, body, pri, delaySeconds, performance.now());
    this.wire.send(putBytes(body, pri, delaySeconds));
    return put;
  }

  /** Reads the answer to a put. True when the job was taken. */
  async readPut(put: OpenPut): Promise<boolean> {
    const reply = await this.readReply();
    const nowMs = performance.now();
    const { ledger, counters, allowed } = this.#load;
    const id = /^INSERTED (\d+)$/.exec(reply.line)?.[1];
    if (id !== undefined) {
      ledger.putInserted(put, Number(id), nowMs);
      ledger.clock.putTaken(put.sentMs, nowMs, !allowed.diskFull);
      counters.add("put");
      return true;
    }
    ledger.putRefused(put, nowMs);
    if (reply.line === "OUT_OF_MEMORY" && allowed.diskFull) counters.add("put refused: disk full");
    else if (reply.line === "DRAINING" && allowed.draining) counters.add("put refused: draining");
    else throw new Violation(`${this.name}: a put was answered "${reply.line}"`);
    return false;
  }

  async put(options: PutOptions): Promise<boolean> {
    await this.use(options.tube);
    const done = this.#load.startTimer();
    const inserted = await this.readPut(this.sendPut(options));
    done("put");
    return inserted;
  }

  // --- reserve -----------------------------------------------------------------------------------

  async reserve(timeoutSeconds: number): Promise<HeldJob | undefined> {
    const sentMs = performance.now();
    this.wire.send(`reserve-with-timeout ${timeoutSeconds}\r\n`);
    return await this.readReserved(sentMs);
  }

  /** Reads the answer to a reserve-with-timeout that was sent at `sentMs`. */
  async readReserved(sentMs: number): Promise<HeldJob | undefined> {
    const reply = await this.readReply();
    if (reply.line === "TIMED_OUT" || reply.line === "DEADLINE_SOON") {
      this.#load.counters.add(`reserve: ${reply.line}`);
      return undefined;
    }
    this.expect("reserve-with-timeout", reply, /^RESERVED /);
    this.#load.counters.add("reserve");
    return this.#hold(reply, sentMs, false);
  }

  async reserveJob(id: number): Promise<HeldJob | undefined> {
    const { reply, sentMs } = await this.#timed("reserve-job", `reserve-job ${id}\r\n`);
    // It may be reserved, also by this client.
    if (reply.line === "NOT_FOUND") return undefined;
    this.expect("reserve-job", reply, /^RESERVED /);
    return this.#hold(reply, sentMs, true);
  }

  #hold(reply: Reply, sentMs: number, byId: boolean): HeldJob {
    const id = Number(/^RESERVED (\d+) /.exec(reply.line)![1]);
    const options = { byId, endMs: this.#leftMs };
    const held = this.#load.ledger.reserved(this.name, id, reply.body!, sentMs, performance.now(), options);
    this.#held.set(id, held);
    return held;
  }

  // --- what a holder does ------------------------------------------------------------------------

  async release(held: HeldJob, pri: number, delaySeconds: number): Promise<void> {
    await this.#change(
      held,
      `release ${held.job.id} ${pri} ${delaySeconds}`,
      "RELEASED",
      "ready",
      pri,
      delaySeconds,
    );
  }

  async bury(held: HeldJob, pri: number): Promise<void> {
    await this.#change(held, `bury ${held.job.id} ${pri}`, "BURIED", "buried", pri, 0);
  }

  async #change(
    { job, hold }: HeldJob,
    line: string,
    success: string,
    kind: "ready" | "buried",
    pri: number,
    delaySeconds: number,
  ): Promise<void> {
    const { ledger } = this.#load;
    this.#held.delete(job.id);
    const change = ledger.changeSent(job, hold, kind, pri, delaySeconds, performance.now());
    const { reply } = await this.#timed(line.split(" ")[0]!, `${line}\r\n`);
    this.expect(line, reply, new RegExp(`^(${success}|NOT_FOUND)$`));
    if (reply.line === success) ledger.changeDone(change, performance.now());
    else ledger.changeRefused(change, performance.now());
  }

  async touch({ job, hold }: HeldJob): Promise<void> {
    const { reply, sentMs } = await this.#timed("touch", `touch ${job.id}\r\n`);
    this.expect("touch", reply, /^(TOUCHED|NOT_FOUND)$/);
    if (reply.line === "TOUCHED") this.#load.ledger.touched(job, hold, sentMs, performance.now());
    else {
      this.#held.delete(job.id);
      this.#load.ledger.touchRefused(job, hold, performance.now());
    }
  }

  /** Deletes a job that this client holds. */
  async delete(held: HeldJob): Promise<void> {
    await this.#delete(held.job, held.hold);
  }

  /** Deletes an unreserved job. */
  async deleteOther(job: JobEntry): Promise<void> {
    await this.#delete(job, this.#held.get(job.id)?.hold);
  }

  async #delete(job: JobEntry, hold: Hold | undefined): Promise<void> {
    const { ledger } = this.#load;
    this.#held.delete(job.id);
    const open = ledger.deleteSent(this.name, job, hold, performance.now());
    const { reply } = await this.#timed("delete", `delete ${job.id}\r\n`);
    this.expect("delete", reply, /^(DELETED|NOT_FOUND)$/);
    if (reply.line === "DELETED") ledger.deleted(open, performance.now());
    else ledger.deleteRefused(open, performance.now());
  }

  // --- everybody ---------------------------------------------------------------------------------

  async kick(tube: string, bound: number): Promise<void> {
    await this.use(tube);
    const done = this.#load.ledger.kickSent(tube);
    await this.ask(`kick ${bound}`, /^KICKED \d+$/);
    done(performance.now());
  }

  async kickJob(job: JobEntry): Promise<void> {
    const done = this.#load.ledger.kickJobSent(job);
    await this.ask(`kick-job ${job.id}`, /^(KICKED|NOT_FOUND)$/);
    done(performance.now());
  }

  /** One of peek-ready, peek-delayed, peek-buried, or `peek ID`. */
  async peek(command: string): Promise<JobEntry | undefined> {
    const { reply, sentMs } = await this.#timed("peek", `${command}\r\n`);
    const id = /^peek (\d+)$/.exec(command)?.[1];
    if (reply.line === "NOT_FOUND") {
      if (id !== undefined) this.#load.ledger.notFound(this.name, Number(id), sentMs);
      return undefined;
    }
    this.expect(command, reply, /^FOUND /);
    const foundId = Number(/^FOUND (\d+) /.exec(reply.line)![1]);
    if (id !== undefined && foundId !== Number(id))
      throw new Violation(`${command} was answered "${reply.line}"`);
    return this.#load.ledger.found(this.name, foundId, reply.body!, sentMs, performance.now());
  }

  async #timed(kind: string, bytes: string): Promise<{ reply: Reply; sentMs: number }> {
    const done = this.#load.startTimer();
    const sentMs = performance.now();
    this.wire.send(bytes);
    const reply = await this.readReply();
    this.#load.counters.add(kind);
    done(kind);
    return { reply, sentMs };
  }

  // --- leaving -----------------------------------------------------------------------------------

  #leave(): void {
    const nowMs = performance.now();
    this.#leftMs = Math.min(this.#leftMs, nowMs);
    this.#load.ledger.clientLeft(
      this.held.map(({ hold }) => hold),
      nowMs,
    );
  }

  halfClose(): void {
    this.#leave();
    this.wire.halfClose();
  }

  close(): void {
    this.#leave();
    this.wire.close();
  }

  /** Closes with RST. */
  reset(): void {
    this.#leave();
    this.wire.reset();
  }
}

/** A whole put command. */
export function putBytes(body: BodySpec, pri: number, delaySeconds: number): Buffer {
  const bytes = makeBody(body.key, body.bytes);
  const line = Buffer.from(`put ${pri} ${delaySeconds} ${body.ttrSeconds} ${bytes.length}\r\n`);
  return Buffer.concat([line, bytes, Buffer.from("\r\n")]);
}
