// A client of a simulation of batches: one request at a time.

import assert from "node:assert/strict";
import type { FakeSocket } from "../server/fake-socket.ts";

export interface BatchReply {
  /** The first line. */
  readonly line: string;
  /** The body that follows RESERVED, FOUND or OK. */
  readonly body: string;
}

export class BatchClient {
  readonly socket: FakeSocket;
  /** The ids of the jobs that it holds, with their bodies. */
  readonly held = new Map<number, string>();
  isWatching = false;
  #received = "";
  #onReply: ((reply: BatchReply) => void) | undefined;

  constructor(socket: FakeSocket) {
    this.socket = socket;
  }

  get isIdle(): boolean {
    return this.#onReply === undefined && !this.socket.ended && !this.socket.vanished;
  }

  ask(request: string, onReply: (reply: BatchReply) => void): void {
    assert.ok(this.isIdle, "a client asks one thing after another");
    this.#onReply = onReply;
    this.socket.write(Buffer.from(`${request}\r\n`, "latin1"));
  }

  /** Takes what has come. */
  take(): void {
    if (this.socket.hasReceived) this.#received += this.socket.takeReceived().toString("latin1");
    const end = this.#received.indexOf("\r\n");
    if (end < 0) return;
    const line = this.#received.slice(0, end);
    const bytes = /^(?:RESERVED \d+|FOUND \d+|OK) (\d+)$/.exec(line)?.[1];
    let next = end + 2;
    let body = "";
    if (bytes !== undefined) {
      if (this.#received.length < next + Number(bytes) + 2) return;
      body = this.#received.slice(next, next + Number(bytes));
      next += Number(bytes) + 2;
    }
    this.#received = this.#received.slice(next);
    assert.equal(this.#received, "", "nothing comes that was not asked for");
    const onReply = this.#onReply;
    assert.ok(onReply !== undefined, `a reply to nothing: ${line}`);
    this.#onReply = undefined;
    onReply({ line, body });
  }
}
