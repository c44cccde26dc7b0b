// One client connection of a generating worker: sends the steps of its program and checks the
// replies.
import net from "node:net";
import tls from "node:tls";
import { monotonicMs } from "../../src/ring/monotonic-clock.ts";
import type { GeneratorRun, RunConnection } from "./generator-run.ts";
import type { Address, MetricName } from "./load-source.ts";
import type { Action, Program } from "./programs.ts";
import { bodyTemplate, type NamedPut, PutTemplate, readStamp, STAMP_BYTES } from "./put-template.ts";
import { type ReplyKind, type ReplyView, readReply } from "./reply-reader.ts";
import { selectTubes, tubeOf } from "./select-tubes.ts";

const EARLY_MS = 2; // a job may come this much before its delay ends by our clock

/** Replies that are to come for equal commands sent together. */
interface Expected {
  readonly action: Action | "use";
  left: number;
  /** When the next one was sent, or should have been; each after it `gapMs` later. */
  sentMs: number;
  readonly gapMs: number;
}

const REPLIES: Record<Expected["action"], ReplyKind> = {
  "list-tube-used": "USING",
  put: "INSERTED",
  "put-delayed": "INSERTED",
  "use-and-put": "INSERTED",
  "put-in-tube": "INSERTED",
  "put-unique": "INSERTED",
  "put-remembered": "INSERTED",
  use: "USING",
  reserve: "RESERVED",
  "reserve-now": "RESERVED",
  delete: "DELETED",
  bury: "BURIED",
  kick: "KICKED",
};

const METRICS: Record<Exclude<Expected["action"], "use">, MetricName> = {
  "list-tube-used": "list",
  put: "put",
  "put-delayed": "put",
  "use-and-put": "put",
  "put-in-tube": "put",
  "put-unique": "put",
  "put-remembered": "put",
  reserve: "reserve",
  "reserve-now": "reserve",
  delete: "delete",
  bury: "bury",
  kick: "kick",
};

/**
 * All connections of a worker read into the same memory: what is left after a callback is carried
 * in their own.
 */
const readMemory = Buffer.allocUnsafeSlow(65536);

export class GeneratorConnection implements RunConnection {
  readonly index: number;
  readonly isConsumer: boolean;
  /** Number among the producers. */
  readonly driver: number;

  readonly #run: GeneratorRun;
  readonly #program: Program;
  readonly #body: Buffer;
  readonly #puts: PutTemplate;
  readonly #view: ReplyView = { kind: "OTHER", number: 0, lineEnd: 0, bodyStart: 0, bodyBytes: 0 };
  #socket: net.Socket | undefined;
  #state: "idle" | "busy" | "finished" = "idle";
  #step = 0;
  #batch = 0;
  #batchFirstMs = 0;
  #operationsBegun = 0;
  #operationsDue = 0;
  #held: number[] = [];
  #expected: Expected[] = [];
  #expectedHead = 0;
  #noted: Expected | undefined;
  #notedMs = 0;
  #notedCount = 0;
  #sawTimedOut = false;
  #isClosing = false;
  #carry: Buffer = Buffer.alloc(0);
  #carryBytes = 0;

  constructor(run: GeneratorRun, index: number) {
    const { scenario, workload } = run;
    this.#run = run;
    this.index = index;
    this.isConsumer =
      scenario.consumer !== undefined &&
      (scenario.separateWatchers ? index >= workload.connections : index % 2 === 1);
    this.driver = scenario.consumer && !scenario.separateWatchers ? Math.floor(index / 2) : index;
    this.#program = this.isConsumer ? scenario.consumer! : scenario.producer;
    this.#body = bodyTemplate(workload.bodyBytes);
    this.#puts = new PutTemplate(this.#body, this.#namedPut());
  }

  /** How its puts name a tube, if they do. */
  #namedPut(): NamedPut | undefined {
    const action = this.#program.steps[0]![0]!;
    if (action !== "put-in-tube" && action !== "put-unique" && action !== "put-remembered") return undefined;
    return {
      tube: tubeOf(this.#run, this.index),
      hasKey: action !== "put-in-tube",
      isRemembered: action === "put-remembered",
      connection: this.index,
      firstKey: Math.floor(monotonicMs() * 1000),
    };
  }

  /** Connects and selects the tubes. */
  open(address: Address): Promise<void> {
    const target = address.host.startsWith("/") ? { path: address.host } : address;
    return new Promise((resolve, reject) => {
      const select = selectTubes(this.#run, this.index, this.isConsumer);
      const onread = {
        buffer: readMemory,
        callback: (bytes: number, memory: Uint8Array) => {
          const received = memory as Buffer;
          if (select.isDone) this.#receive(received, bytes);
          else select.receive(received.toString("latin1", 0, bytes));
          return true;
        },
      };
      const socket = "ca" in target ? tls.connect(target) : net.connect({ ...target, onread, noDelay: true });
      this.#socket = socket;
      if ("ca" in target)
        socket.setNoDelay(true).on("data", (bytes: Buffer) => onread.callback(bytes.length, bytes));
      select.begin((text) => socket.write(text, "latin1"), resolve, reject);
      socket.on("error", (error) => this.#lost(error, reject));
      socket.on("end", () => this.#lost(new Error(`connection ${this.index}: the server closed it`), reject));
    });
  }

  close(): void {
    this.#socket?.removeAllListeners("end").destroy();
  }

  startConsuming(nowMs: number): void {
    this.#batch = this.#run.workload.pipeline;
    this.#sendStep(nowMs);
  }

  operationDue(nowMs: number): void {
    this.#operationsDue++;
    if (this.#state === "idle") this.startOperation(nowMs);
  }

  finishIfIdle(): void {
    if (this.#state === "idle") this.#finish();
  }

  startOperation(nowMs: number): void {
    const run = this.#run;
    this.#state = "idle";
    if (run.isOver(nowMs)) {
      this.#finish();
      return;
    }
    let wanted = run.workload.pipeline;
    if (run.gapMs > 0) {
      if (this.#operationsDue === 0) return;
      wanted = Math.min(wanted, this.#operationsDue);
    } else if (run.mustWait(this)) {
      return;
    }
    this.#batch = this.#program.loopFrom > 0 ? wanted : run.claim(wanted);
    if (this.#batch === 0) {
      this.#finish();
      return;
    }
    this.#batchFirstMs = nowMs;
    if (run.gapMs > 0) {
      this.#batchFirstMs = run.startMs + (this.#operationsBegun * run.driverCount + this.driver) * run.gapMs;
      this.#operationsDue -= this.#batch;
      this.#operationsBegun += this.#batch;
    }
    this.#step = 0;
    this.#sendStep(nowMs);
  }

  #lost(error: Error, reject: (error: Error) => void): void {
    reject(error);
    this.#run.fail(error);
  }

  #finish(): void {
    if (this.#state === "finished") return;
    this.#state = "finished";
    if (!this.isConsumer) this.#run.driverFinished();
  }

  #sendStep(nowMs: number): void {
    // consumers and `drain`: they end between a delete and a reserve
    const isContinuous = this.#program.loopFrom > 0;
    if (isContinuous && (this.#sawTimedOut || this.#run.isOver(nowMs))) this.#isClosing = true;
    this.#expected.length = 0;
    this.#expectedHead = 0;
    const { text, parts } = this.#stepBytes(nowMs);
    if (this.#expected.length === 0) {
      this.#finish();
      return;
    }
    this.#state = "busy";
    if (text !== "") this.#socket!.write(text, "latin1");
    else this.#socket!.write(parts.length === 1 ? parts[0]! : Buffer.concat(parts));
  }

  /** The commands of the present step: as text, or those with bodies as bytes. */
  #stepBytes(nowMs: number): { text: string; parts: Buffer[] } {
    let text = "";
    const parts: Buffer[] = [];
    for (const action of this.#program.steps[this.#step]!) {
      if (this.#isClosing && (action === "reserve" || action === "reserve-now")) continue;
      const bytes = this.#commandBytes(action, nowMs);
      if (typeof bytes === "string") text += bytes;
      else parts.push(bytes);
    }
    return { text, parts };
  }

  /** The bytes of a whole batch of one action; notes the replies they will have. */
  #commandBytes(action: Action, nowMs: number): Buffer | string {
    const count = this.#batch;
    const startsOperation = this.#step === 0 && !this.isConsumer;
    const sentMs = startsOperation ? this.#batchFirstMs : nowMs;
    const gapMs = startsOperation ? this.#run.gapMs * this.#run.driverCount : 0;
    switch (action) {
      case "put":
      case "put-in-tube":
      case "put-unique":
      case "put-remembered":
        this.#expect(action, count, sentMs, gapMs);
        return this.#puts.batch(count, sentMs, gapMs);
      case "put-delayed":
        this.#expect(action, count, sentMs, gapMs);
        return Buffer.concat(Array.from({ length: count }, (_, i) => this.#delayedPut(sentMs + i * gapMs)));
      case "use-and-put":
        return Buffer.concat(Array.from({ length: count }, (_, i) => this.#useAndPut(sentMs + i * gapMs)));
      case "delete":
      case "bury": {
        const held = this.#held;
        this.#held = [];
        if (held.length > 0) this.#expect(action, held.length, nowMs, 0);
        return held.map((id) => (action === "delete" ? `delete ${id}\r\n` : `bury ${id} 0\r\n`)).join("");
      }
      case "kick":
        this.#expect(action, 1, nowMs, 0);
        return `kick ${count}\r\n`;
      case "reserve":
      case "reserve-now":
        this.#expect(action, count, sentMs, gapMs);
        return (action === "reserve" ? "reserve\r\n" : "reserve-with-timeout 0\r\n").repeat(count);
      case "list-tube-used":
        this.#expect(action, count, sentMs, gapMs);
        return "list-tube-used\r\n".repeat(count);
    }
  }

  #expect(action: Expected["action"], left: number, sentMs: number, gapMs: number): void {
    this.#expected.push({ action, left, sentMs, gapMs });
  }

  #delayedPut(sentMs: number): Buffer {
    const delaySeconds = 1 + Math.floor(Math.random() * this.#run.workload.delaySeconds);
    return this.#puts.single(delaySeconds, sentMs + delaySeconds * 1000);
  }

  #useAndPut(sentMs: number): Buffer {
    const tube = Math.floor(Math.random() * this.#run.workload.tubes);
    this.#expect("use", 1, sentMs, 0);
    this.#expect("use-and-put", 1, sentMs, 0);
    return Buffer.concat([Buffer.from(`use bench-${tube}\r\n`), this.#puts.single(0, sentMs)]);
  }

  #receive(memory: Buffer, bytes: number): void {
    const nowMs = monotonicMs();
    this.#run.lastActivityMs = nowMs;
    if (this.#carryBytes === 0) {
      const used = this.#takeReplies(memory, bytes, nowMs);
      if (used < bytes) this.#keep(memory, used, bytes);
    } else {
      this.#keep(memory, 0, bytes);
      const used = this.#takeReplies(this.#carry, this.#carryBytes, nowMs);
      this.#carry.copyWithin(0, used, this.#carryBytes);
      this.#carryBytes -= used;
    }
    if (this.#state === "busy" && this.#expectedHead === this.#expected.length) this.#advance(nowMs);
    this.#run.wakeProducers(nowMs);
  }

  /** Keeps bytes of a reply that isn't complete. */
  #keep(memory: Buffer, from: number, to: number): void {
    const needed = this.#carryBytes + to - from;
    if (needed > this.#carry.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(1024, needed * 2));
      this.#carry.copy(larger, 0, 0, this.#carryBytes);
      this.#carry = larger;
    }
    memory.copy(this.#carry, this.#carryBytes, from, to);
    this.#carryBytes = needed;
  }

  /** Returns how many bytes were complete replies. */
  #takeReplies(bytes: Buffer, to: number, nowMs: number): number {
    const view = this.#view;
    let inserted = 0;
    let reserved = 0;
    let count = 0;
    let at = 0;
    for (;;) {
      const next = readReply(bytes, at, to, view);
      if (next < 0) break;
      const expected = this.#expected[this.#expectedHead];
      if (!expected) {
        this.#wrong("nothing", bytes, at, "no reply was expected");
        break;
      }
      const wasTaken = this.#takeReply(expected, bytes, at, nowMs);
      if (!wasTaken) break;
      if (view.kind === "INSERTED") inserted++;
      else if (view.kind === "RESERVED") reserved++;
      count++;
      at = next;
    }
    this.#recordNoted(nowMs);
    if (inserted !== reserved) this.#run.control.add("backlog", inserted - reserved);
    if (inserted > 0) this.#run.control.add("inserted", inserted);
    if (count > 0) this.#run.countReplies(count, nowMs);
    return at;
  }

  #takeReply(expected: Expected, bytes: Buffer, at: number, nowMs: number): boolean {
    const { action } = expected;
    const view = this.#view;
    const isEmpty = action === "reserve-now" && view.kind === "TIMED_OUT";
    if (view.kind !== REPLIES[action] && !isEmpty)
      return this.#wrong(action, bytes, at, "another reply was expected");
    if (isEmpty) this.#sawTimedOut = true;
    else if (view.kind === "RESERVED" && !this.#takeJob(action, bytes, at, nowMs)) return false;
    else if (action === "kick" && view.number !== this.#batch) {
      return this.#wrong(action, bytes, at, "all buried jobs were to be kicked");
    }
    this.#note(expected, nowMs);
    expected.sentMs += expected.gapMs;
    if (--expected.left === 0) this.#expectedHead++;
    return true;
  }

  /** Replies to equal commands sent together have one latency: they are recorded at once. */
  #note(expected: Expected, nowMs: number): void {
    if (expected !== this.#noted || expected.gapMs > 0) {
      this.#recordNoted(nowMs);
      this.#noted = expected;
      this.#notedMs = nowMs - expected.sentMs;
    }
    this.#notedCount++;
  }

  #recordNoted(nowMs: number): void {
    const action = this.#noted?.action;
    if (action !== undefined && action !== "use") {
      this.#run.measure(METRICS[action], this.#notedMs, this.#notedCount, nowMs);
      if (!(this.isConsumer && action === "reserve")) {
        this.#run.measure("command", this.#notedMs, this.#notedCount, nowMs);
      }
    }
    this.#noted = undefined;
    this.#notedCount = 0;
  }

  #takeJob(action: Expected["action"], bytes: Buffer, at: number, nowMs: number): boolean {
    const { number: id, bodyStart, bodyBytes } = this.#view;
    const body = this.#body;
    this.#held.push(id);
    if (action === "reserve-now") return true; // `drain` takes whatever is there
    if (bodyBytes !== body.length) return this.#wrong(action, bytes, at, "another body size was put");
    if (bodyBytes < STAMP_BYTES) return true;
    if (bytes.compare(body, STAMP_BYTES, bodyBytes, bodyStart + STAMP_BYTES, bodyStart + bodyBytes) !== 0) {
      return this.#wrong(action, bytes, at, "another body was put");
    }
    if (!this.isConsumer) return true;
    const stampMs = readStamp(bytes, bodyStart) / 1000;
    if (!this.#run.isMeasuredStamp(stampMs)) return true;
    if (nowMs + EARLY_MS < stampMs)
      return this.#wrong(action, bytes, at, "the job came before its delay was over");
    this.#run.measure("delivery", nowMs - stampMs, 1, nowMs);
    return true;
  }

  #wrong(what: string, bytes: Buffer, at: number, why: string): false {
    const line = bytes.toString("latin1", at, Math.min(this.#view.lineEnd, at + 60));
    this.#run.fail(new Error(`connection ${this.index}: ${what} answered "${line}": ${why}`));
    return false;
  }

  #advance(nowMs: number): void {
    if (this.#isClosing) {
      this.#finish();
      return;
    }
    const { steps, loopFrom } = this.#program;
    this.#step++;
    if (this.#step === steps.length && loopFrom > 0) this.#step = loopFrom;
    if (this.#step < steps.length) {
      this.#sendStep(nowMs);
      return;
    }
    const run = this.#run;
    for (let i = 0; i < this.#batch && steps.length > 1; i++) {
      run.measure("cycle", nowMs - (this.#batchFirstMs + i * run.gapMs * run.driverCount), 1, nowMs);
    }
    this.startOperation(nowMs);
  }
}
