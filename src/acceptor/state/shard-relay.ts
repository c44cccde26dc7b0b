// Carries what shards say to each other: there are no rings between them.
//
// Each shard has one acceptor that carries for it. What a shard has said of jobs waits here until its records are written, so that
// the log has them before any that the other shard makes: the latest record of a job is then the latest in the log, too. What
// says that jobs have arrived waits as a reply does. Shards say no more than some shipments at once (shard/transfer/transfer-sender.ts).

import { RequestOp } from "../../message/request.ts";
import { Request } from "../../protocol/request.ts";

/** What it needs of its acceptor. */
export interface ShardRelayHost {
  /** Whether record `number` of a shard is as far in the log as replies wait for. */
  isDurable(shard: number, number: number): boolean;
  /** Whether it is written. */
  isWritten(shard: number, number: number): boolean;
  post(shard: number, message: Request): void;
}

interface Waiting {
  readonly to: number;
  readonly message: Request;
  readonly durable: boolean;
  readonly recordNumber: number;
}

export class ShardRelay {
  readonly #host: ShardRelayHost;
  /** Of each shard, in order. */
  readonly #waiting = new Map<number, Waiting[]>();
  readonly #message = new Request();

  constructor(host: ShardRelayHost) {
    this.#host = host;
  }

  /** A message of a shard, begun by the caller; its body is valid during the call. */
  carry(from: number, to: number, message: Request, durable: boolean, recordNumber: number): void {
    const waiting = this.#waiting.get(from);
    if (waiting === undefined && this.#mayGo(from, durable, recordNumber)) {
      this.#host.post(to, message);
      return;
    }
    const copy = { to, message: message.clone(), durable, recordNumber };
    if (waiting === undefined) this.#waiting.set(from, [copy]);
    else waiting.push(copy);
  }

  /** The message to be filled in for `carry`. */
  message(from: number, kind: number, number: number): Request {
    const message = this.#message.begin(RequestOp.Carried);
    message.slot = from;
    message.count = kind;
    message.id = number;
    return message;
  }

  /** Whether something waits. */
  get hasHeld(): boolean {
    return this.#waiting.size > 0;
  }

  /** Whether something that has waited for the log may go on. */
  get mayGoOn(): boolean {
    for (const [from, [first]] of this.#waiting)
      if (this.#mayGo(from, first!.durable, first!.recordNumber)) return true;
    return false;
  }

  /** Lets go on what may. */
  turn(): void {
    for (const [from, waiting] of this.#waiting) {
      let done = 0;
      for (; done < waiting.length; done++) {
        const { to, message, durable, recordNumber } = waiting[done]!;
        if (!this.#mayGo(from, durable, recordNumber)) break;
        this.#host.post(to, message);
      }
      if (done === waiting.length) this.#waiting.delete(from);
      else if (done > 0) waiting.splice(0, done);
    }
  }

  #mayGo(from: number, durable: boolean, recordNumber: number): boolean {
    return durable ? this.#host.isDurable(from, recordNumber) : this.#host.isWritten(from, recordNumber);
  }
}
