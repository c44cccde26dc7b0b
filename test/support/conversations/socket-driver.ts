// Driver that plays transcripts against a running server process: real sockets, real time.

import { setTimeout as sleep } from "node:timers/promises";
import type { ServerProcess } from "../server/server-process.ts";
import { WireClient } from "../server/wire-client.ts";
import type { TranscriptDriver } from "./transcript-driver.ts";

/** Silence that counts as "nothing", ms. */
const QUIET_MS = 60;
const REPLY_MS = 6000;
/** A step may take so long without counting as late. */
const PROMPT_MS = 20;

export class SocketDriver implements TranscriptDriver {
  readonly #process: ServerProcess;
  readonly #clients = new Map<string, WireClient>();
  /** Delay of all steps together: on a busy machine a transcript's seconds do not fit any more. */
  lateMs = 0;

  constructor(process: ServerProcess) {
    this.#process = process;
  }

  get server(): ServerProcess["kind"] {
    return this.#process.kind;
  }

  async connect(client: string): Promise<void> {
    this.#clients.set(client, await WireClient.connect(this.#process.address));
  }

  async send(client: string, bytes: Uint8Array): Promise<void> {
    this.#client(client).send(bytes);
  }

  async receive(client: string, patience: "reply" | "quiet"): Promise<Uint8Array | null> {
    const reading = this.#client(client).readSome(patience === "reply" ? REPLY_MS : QUIET_MS);
    return await this.#timed(reading, patience === "reply" ? 0 : QUIET_MS);
  }

  async act(client: string, act: "half-close" | "close" | "reset"): Promise<void> {
    const socket = this.#client(client);
    if (act === "half-close") socket.halfClose();
    else if (act === "close") socket.close();
    else socket.reset();
  }

  async advance(ms: number): Promise<void> {
    await this.#timed(sleep(ms), ms);
  }

  async signal(name: "SIGUSR1"): Promise<void> {
    this.#process.signal(name);
  }

  closeAll(): void {
    for (const client of this.#clients.values()) client.close();
  }

  async #timed<T>(work: Promise<T>, expectedMs: number): Promise<T> {
    const startedAt = performance.now();
    try {
      return await work;
    } finally {
      this.lateMs += Math.max(0, performance.now() - startedAt - expectedMs - PROMPT_MS);
    }
  }

  #client(name: string): WireClient {
    const client = this.#clients.get(name);
    if (client === undefined) throw new Error(`No client ${name}`);
    return client;
  }
}
