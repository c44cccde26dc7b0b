// Relays messages between shards, which have no rings to each other.
//
// Each shard has one acceptor that relays for it. A shard's message about jobs waits here until the
// shard's records are written. The log then has them before any record that the receiving shard
// makes, so the latest record of a job is also the last in the log. A message that jobs have
// arrived waits as a reply does. The number of transfers in flight is limited
// (shard/transfer/transfer-sender.ts).

import { CarriedView, RequestOp } from "../../message/request.ts";
import { Request } from "../../protocol/request.ts";
import type { LogProgress } from "./log-progress.ts";
import type { ShardLinks } from "./shard-links.ts";

interface Waiting {
  readonly to: number;
  readonly message: Request;
  readonly durable: boolean;
  readonly recordNumber: number;
}

export class ShardRelay {
  /** Whether messages wait. */
  waitsForLog = false;
  readonly #links: ShardLinks;
  readonly #log: LogProgress;
  /** Waiting messages by sending shard, in order. */
  readonly #waiting = new Map<number, Waiting[]>();
  readonly #message = new Request();

  constructor(links: ShardLinks, log: LogProgress) {
    this.#links = links;
    this.#log = log;
  }

  /**
   * Relays a shard's message, which `message` has begun. Its body is valid only during the call.
   */
  carry(from: number, to: number, message: Request, durable: boolean, recordNumber: number): void {
    const waiting = this.#waiting.get(from);
    if (waiting === undefined && this.#mayGo(from, durable, recordNumber)) {
      this.#links.post(to, message);
      return;
    }
    this.waitsForLog = true;
    const copy = { to, message: message.clone(), durable, recordNumber };
    if (waiting === undefined) this.#waiting.set(from, [copy]);
    else waiting.push(copy);
  }

  /** Returns the message to fill in for `carry`. */
  message(from: number, transferMessage: number, transfer: number): Request {
    const message = this.#message.begin(RequestOp.Carried);
    CarriedView.fill(message, from, transferMessage, transfer);
    return message;
  }

  /** Whether a message that waited for the log may be sent. */
  get mayGoOn(): boolean {
    for (const [from, [first]] of this.#waiting)
      if (this.#mayGo(from, first!.durable, first!.recordNumber)) return true;
    return false;
  }

  /** Sends the messages that need not wait any longer. */
  turn(): void {
    for (const [from, waiting] of this.#waiting) {
      let done = 0;
      for (; done < waiting.length; done++) {
        const { to, message, durable, recordNumber } = waiting[done]!;
        if (!this.#mayGo(from, durable, recordNumber)) break;
        this.#links.post(to, message);
      }
      if (done === waiting.length) this.#waiting.delete(from);
      else if (done > 0) waiting.splice(0, done);
    }
    this.waitsForLog = this.#waiting.size > 0;
  }

  #mayGo(from: number, durable: boolean, recordNumber: number): boolean {
    return durable ? this.#log.isLogged(from, recordNumber) : this.#log.isWritten(from, recordNumber);
  }
}
