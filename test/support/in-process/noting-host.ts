// A connection that records what a conversation does with it.

import type { ConversationHost, Signal } from "../../../src/acceptor/fanout/conversation.ts";
import { latin1 } from "../../../src/base/bytes.ts";
import { Request, Span } from "../../../src/protocol/request.ts";

export class NotingHost implements ConversationHost {
  now = 0;
  /** The claim word: the wait's number, or 0 once it has ended. */
  word = 0;
  waits = 0;
  mayTakeMore = true;
  payloadBytesMax = 1000;
  readonly barrierHelps: boolean;
  readonly #describe: (shard: number, message: Request) => string;
  readonly #message = new Request();
  readonly #did: string[] = [];

  /** `describe` makes a line of each message that is posted. */
  constructor(describe: (shard: number, message: Request) => string, barrierHelps = false) {
    this.#describe = describe;
    this.barrierHelps = barrierHelps;
  }

  /** Returns the calls since the last look. */
  get did(): string[] {
    return this.#did.splice(0);
  }

  message(op: number): Request {
    return this.#message.begin(op);
  }

  post(shard: number, message: Request): void {
    this.#did.push(this.#describe(shard, message));
  }

  holdFor(shard: number, recordNumber: number): void {
    this.#did.push(`behind record ${recordNumber} of ${shard}`);
  }

  finishConversation(reply: Uint8Array | undefined): void {
    this.#did.push(reply === undefined ? "done" : latin1(reply, 0, reply.length - 2));
  }

  finishWithText(text: string): void {
    this.#did.push(text);
  }

  appendPiece(bytes: Uint8Array, length: number): void {
    this.#did.push(latin1(bytes, 0, length));
  }

  nowMs(): number {
    return this.now;
  }

  openWait(): number {
    this.word = ++this.waits;
    return this.word;
  }

  claimWait(number: number): boolean {
    if (this.word !== number) return false;
    this.word = 0;
    return true;
  }
}

/** A signal with what matters, and nothing held. */
export function signalOf(shard: number, kind: number, rest: Partial<Signal> = {}): Signal {
  const nothing = { flags: 0, value: 0, pri: 0, recordNumber: 0, payload: new Span() };
  return { shard, kind, soonestMs: Number.POSITIVE_INFINITY, ...nothing, ...rest };
}
