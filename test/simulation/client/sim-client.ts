// One simulated client: its unanswered commands, and whether each reply is allowed.
//
// Commands of one client take effect in the order in which they were sent. A command that changes
// something has taken effect when its engine's call is seen; its reply must then be the one that
// the model gives. A command that only reads may be answered as of any moment between the previous
// effect and its reply. If an acceptor refuses a reserve over several shards, there is no call, and
// the reply is checked against the promise of shared-reserve.ts.

import assert from "node:assert/strict";
import type { Model } from "../model/model.ts";
import type { Order } from "../model/turns/model-turns.ts";
import type { FakeSocket } from "../server/fake-socket.ts";
import { ClientEffects } from "./client-effects.ts";
import { ClientPromises } from "./client-promises.ts";
import { ClientReplies } from "./client-replies.ts";
import { type Command, fixed } from "./command.ts";
import { PendingCommands, type SimWorld } from "./pending-commands.ts";

/** Unused input at which the server stops reading from a client that waits. */
const WAITING_INPUT_BYTES_MAX = 512 * 1024;

export class SimClient extends PendingCommands {
  readonly effects: ClientEffects = new ClientEffects(this);
  readonly promises: ClientPromises = new ClientPromises(this);
  readonly replies: ClientReplies = new ClientReplies(this);
  /** What it calls itself. */
  workerName: string | undefined;
  /** How it picks its jobs, and the weights of watched tubes. */
  order: Order = "strict";
  readonly weights: Map<string, number> = new Map();

  constructor(
    name: string,
    socket: FakeSocket,
    place: { session: number; acceptor: number },
    model: Model,
    world: SimWorld,
  ) {
    super(name, socket, place, model, world);
    socket.onAnswered = (bytes) => this.replies.onAnsweredBytes(bytes);
    socket.onSent = (bytes) => this.replies.onSentBytes(bytes);
    socket.onEnding = () => this.#onEnding();
  }

  /** Its acceptor executes a name: the last one counts, wherever the connection goes. */
  onNamed(name: string): void {
    assert.ok(
      this.pending.some(({ command }) => command.text === `name ${name}`),
      `client ${this.name}: is called ${name}`,
    );
    this.workerName = name;
  }

  weigh(tube: string, weight: number): Command {
    if (!this.watched.includes(tube)) this.watched.push(tube);
    this.weights.set(tube, weight);
    return fixed(`watch ${tube} weight=${weight}`, `WATCHING ${this.watched.length}\r\n`);
  }

  inspectWatched(): Command {
    const lines = this.watched.map((tube) => ({ tube, weight: this.weights.get(tube) ?? 1 }));
    const rows = lines.map((row) => `- ${JSON.stringify(row)}\n`).join("");
    const text = `---\nreserve-order: ${this.order}\nwatched:\n${rows}`;
    return fixed("inspect-watched", `OK ${text.length}\r\n${text}\r\n`);
  }

  #onEnding(): void {
    if (this.gone) return;
    if (this.stopped) {
      this.over = true;
      return;
    }
    assert.ok(this.halfClosed || this.quits, `client ${this.name}: the server closed the connection`);
    assert.equal(this.pending.length, 0, `client ${this.name}: closed before "${this.oldest}" was answered`);
    assert.equal(this.unsent, "", `client ${this.name}: closed before all replies had left`);
    this.over = true;
  }

  /**
   * At rest, with all replies read, a client has its answers but for a reserve that waits for good
   * reason.
   */
  checkRest(shards: number): void {
    if (this.gone || this.over) return;
    assert.equal(this.unsent, "", `client ${this.name}: all replies have left`);
    const isUnseen = this.halfClosed && !this.socket.isEndSeen;
    if (this.socket.isPaused) this.#checkPause();
    else assert.ok(!isUnseen, `client ${this.name}: its end is seen`);
    const mayBeOpen = (!this.halfClosed || isUnseen) && !this.quits && !this.stopped;
    assert.ok(mayBeOpen, `client ${this.name}: its connection is closed`);
    const pending = this.pending[0];
    if (pending === undefined) return;
    const { command } = pending;
    if (this.promises.mayBeAborted(pending) && !this.socket.isPaused)
      this.fail(`"${command.text}" waits on although something was said behind it`);
    if (command.kind !== "reserve" || pending.reply !== undefined || pending.given.length > 0)
      this.fail(
        `"${command.text}" is never answered${pending.reply === undefined ? "" : ", though it took effect"}`,
      );
    const session = this.modelSession();
    const waits = this.model.waits.filter((wait) => wait.session === session);
    const isWaiting = waits.some((wait) => wait.number === undefined || wait.number === session.openWait);
    assert.ok(isWaiting, `client ${this.name}: "${command.text}" is not answered and waits nowhere`);
    if ((command.batch?.min ?? 1) > 1) this.promises.checkFilling(pending, waits, shards);
    else
      assert.equal(
        this.model.queues.bestReady(this.#tubes(command.watched), this.nowMs()),
        undefined,
        `client ${this.name}: waits although a job is ready`,
      );
    assert.ok(
      !this.model.connections.inMargin(session, this.nowMs()),
      `client ${this.name}: waits on in the margin`,
    );
    const waitedMs = this.nowMs() - pending.sentAtMs;
    const startedMs = pending.arrivedAtMs;
    // It may have begun later than its bytes came: each shard counts from when it saw it.
    const latestMs = Math.max(
      startedMs,
      ...waits.map((wait) => wait.timeoutAtMs - command.timeoutMs).filter(Number.isFinite),
    );
    assert.ok(
      this.nowMs() < latestMs + command.timeoutMs,
      `client ${this.name}: waits on after ${waitedMs} ms`,
    );
    for (let shard = 0; shard < shards; shard++) {
      const watchesThere: boolean = command.watched.some((name) => this.#shardOf(name) === shard);
      const waitsThere = waits.some((wait) => wait.shard === shard);
      assert.ok(
        waitsThere || !watchesThere,
        `client ${this.name}: waits on shard ${shard}, where it watches a tube`,
      );
    }
  }

  /**
   * At rest input is left unread only behind a reserve that waits, and only if it is more than the
   * server keeps for it.
   */
  #checkPause(): void {
    const first = this.pending[0];
    if (first?.command.kind !== "reserve") this.fail("at rest, and yet nothing is read from it");
    const keptBytes = this.socket.deliveredBytes - first.beginsAt - first.command.bytes.length;
    assert.ok(
      keptBytes >= WAITING_INPUT_BYTES_MAX,
      `client ${this.name}: not read any more after ${keptBytes} bytes behind a reserve`,
    );
  }

  #shardOf(tube: string): number | undefined {
    return this.model.tubes.get(tube)?.shard;
  }

  *#tubes(names: readonly string[]): Generator<NonNullable<ReturnType<Model["tubes"]["get"]>>> {
    for (const name of names) {
      const tube = this.model.tubes.get(name);
      if (tube !== undefined) yield tube;
    }
  }
}
