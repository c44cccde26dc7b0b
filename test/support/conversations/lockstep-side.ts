// One of the two servers of a differential test: named connections that collect replies as they
// arrive.

import { createConnection, type Socket } from "node:net";
import { bodyBytesOf } from "../server/wire-client.ts";

export type Address = { readonly port: number; readonly host: string };

/** A connection that cuts what it receives into replies, as latin1 texts. */
class ReplyCollector {
  readonly #socket: Socket;
  readonly #onChange: () => void;
  readonly replies: string[] = [];
  ended = false;
  #pending: Buffer = Buffer.alloc(0);

  constructor(socket: Socket, onChange: () => void) {
    this.#socket = socket;
    this.#onChange = onChange;
    socket.setNoDelay(true);
    socket.on("data", (chunk: Buffer) => {
      this.#pending = this.#pending.length === 0 ? chunk : Buffer.concat([this.#pending, chunk]);
      this.#cutReplies();
      onChange();
    });
    socket.on("end", () => this.#end());
    socket.on("close", () => this.#end());
    socket.on("error", () => this.#end());
  }

  /** Bytes that are not a whole reply (yet). */
  get rest(): string {
    return this.#pending.toString("latin1");
  }

  send(bytes: string): void {
    this.#socket.write(Buffer.from(bytes, "latin1"));
  }

  halfClose(): void {
    this.#socket.end();
  }

  close(): void {
    this.#socket.destroy();
  }

  #end(): void {
    this.ended = true;
    this.#onChange();
  }

  #cutReplies(): void {
    for (;;) {
      const lineEnd = this.#pending.indexOf("\r\n");
      if (lineEnd < 0) return;
      const bodyBytes = bodyBytesOf(this.#pending.toString("latin1", 0, lineEnd));
      const total = bodyBytes === undefined ? lineEnd + 2 : lineEnd + 2 + bodyBytes + 2;
      if (this.#pending.length < total) return;
      this.replies.push(this.#pending.toString("latin1", 0, total));
      this.#pending = this.#pending.subarray(total);
    }
  }
}

export class LockstepSide {
  readonly name: string;
  readonly #address: Address;
  readonly connections: ReplyCollector[] = [];
  #control: ReplyCollector | undefined;
  #wake: (() => void) | undefined;
  #changes = 0;

  constructor(name: string, address: Address) {
    this.name = name;
    this.#address = address;
  }

  async open(clientCount: number): Promise<void> {
    this.#control = await this.#connect();
    for (let client = 0; client < clientCount; client++) this.connections.push(await this.#connect());
  }

  async reconnect(client: number): Promise<void> {
    this.connections[client]?.close();
    this.connections[client] = await this.#connect();
  }

  closeAll(): void {
    this.#control?.close();
    for (const connection of this.connections) connection.close();
  }

  client(index: number): ReplyCollector {
    const connection = this.connections[index];
    if (connection === undefined) throw new Error(`No client ${index}`);
    return connection;
  }

  get changes(): number {
    return this.#changes;
  }

  /** Resolves when something has arrived since `changes` was read, or after `limitMs`. */
  changeAfter(changes: number, limitMs: number): Promise<void> {
    if (this.#changes !== changes) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(done, limitMs);
      const wake = (): void => done();
      function done(): void {
        clearTimeout(timer);
        resolve();
      }
      this.#wake = wake;
    });
  }

  /** `stats` on a connection of its own, as keys and values. */
  async stats(): Promise<ReadonlyMap<string, string>> {
    const control = this.#control;
    if (control === undefined) throw new Error("not open");
    const before = control.replies.length;
    control.send("stats\r\n");
    const deadline = performance.now() + 10_000;
    while (control.replies.length === before) {
      if (control.ended || performance.now() > deadline)
        throw new Error(`${this.name} does not answer stats`);
      await this.changeAfter(this.#changes, 1000);
    }
    return fieldsOf(control.replies.pop() ?? "");
  }

  #connect(): Promise<ReplyCollector> {
    return new Promise((resolve, reject) => {
      const socket = createConnection({ ...this.#address, allowHalfOpen: true });
      socket.once("error", reject);
      socket.once("connect", () => {
        socket.removeListener("error", reject);
        const collector = new ReplyCollector(socket, () => {
          this.#changes++;
          this.#wake?.();
        });
        resolve(collector);
      });
    });
  }
}

/** Keys and values of an `OK` reply, in order. */
export function fieldsOf(reply: string): Map<string, string> {
  const fields = new Map<string, string>();
  for (const row of reply.split("\n")) {
    const colon = row.indexOf(": ");
    if (colon > 0) fields.set(row.slice(0, colon), row.slice(colon + 2));
  }
  return fields;
}
