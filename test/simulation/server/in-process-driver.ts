// Driver that plays transcripts against the in-process server: only `advance` lets time pass, and
// every send is processed at once.

import type { TranscriptDriver } from "../../support/conversations/transcript-driver.ts";
import type { ServerKind } from "../../support/server/server-process.ts";
import type { FakeSocket } from "./fake-socket.ts";
import type { InProcessServer } from "./in-process-server.ts";

/**
 * A wait on a real server lasts a little longer than written, and transcripts may count on it: a
 * TTR ends after its time.
 */
const LATE_MS = 1;

export class InProcessDriver implements TranscriptDriver {
  readonly server: ServerKind = "ours";
  readonly #server: InProcessServer;
  readonly #clients = new Map<string, FakeSocket>();

  constructor(server: InProcessServer) {
    this.#server = server;
  }

  async connect(client: string): Promise<void> {
    this.#clients.set(client, this.#server.connect());
    this.#server.settle();
  }

  async send(client: string, bytes: Uint8Array): Promise<void> {
    this.#client(client).write(bytes);
    this.#server.settle();
  }

  async receive(client: string): Promise<Uint8Array | null> {
    const socket = this.#client(client);
    if (!socket.hasReceived && socket.ended) return null;
    return socket.takeReceived();
  }

  async act(client: string, act: "half-close" | "close" | "reset"): Promise<void> {
    const socket = this.#client(client);
    if (act === "half-close") socket.halfClose();
    else if (act === "close") socket.close();
    else socket.reset();
    this.#server.settle();
  }

  async advance(ms: number): Promise<void> {
    this.#server.advance(ms + LATE_MS);
  }

  async signal(): Promise<void> {
    this.#server.drain();
  }

  #client(name: string): FakeSocket {
    const socket = this.#clients.get(name);
    if (socket === undefined) throw new Error(`No client ${name}`);
    return socket;
  }
}
