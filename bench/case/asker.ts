// A connection that asks one thing at a time: commands, and the replies to all of them.
import net from "node:net";
import type { Address } from "../load/load-source.ts";

export class Asker {
  readonly #socket: net.Socket;
  #text = "";
  #onText: (() => void) | undefined;
  #failed: ((error: Error) => void) | undefined;

  /** With `timeoutMs` a question fails when nothing has come for so long. */
  static open(address: Address, timeoutMs = 0): Promise<Asker> {
    return new Promise((resolve, reject) => {
      const socket = net.connect({ ...address, noDelay: true });
      socket.once("error", reject);
      socket.once("connect", () => resolve(new Asker(socket, timeoutMs)));
    });
  }

  private constructor(socket: net.Socket, timeoutMs: number) {
    this.#socket = socket;
    const fail = (error: Error): void => this.#failed?.(error);
    socket.setTimeout(timeoutMs, () => fail(new Error("no reply")));
    socket.on("error", fail);
    socket.on("close", () => fail(new Error("the connection was closed")));
    socket.setEncoding("latin1").on("data", (chunk: string) => {
      this.#text += chunk;
      this.#onText?.();
    });
  }

  /** `read` makes the answer of all that has come since, and nothing of what is not whole. */
  ask<Answer>(commands: string, read: (text: string) => Answer | undefined): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#failed = reject;
      this.#onText = () => {
        const answer = read(this.#text);
        if (answer === undefined) return;
        this.#text = "";
        resolve(answer);
      };
      this.#socket.write(commands);
    });
  }

  close(): void {
    this.#socket.destroy();
  }
}

/**
 * Reads the first lines of so many replies; a batch is one reply, and has those of its jobs behind
 * its own.
 */
export function firstLines(replies: number): (text: string) => string[] | undefined {
  return (text) => {
    const lines: string[] = [];
    let at = 0;
    for (let wanted = replies; wanted > 0; wanted--) {
      const lineEnd = text.indexOf("\r\n", at);
      if (lineEnd < 0) return undefined;
      const line = text.slice(at, lineEnd);
      lines.push(line);
      at = lineEnd + 2;
      if (line.startsWith("RESERVED_BATCH ")) wanted += Number(line.split(" ")[1]);
      at += bodyLength(line);
      if (at > text.length) return undefined;
    }
    return lines;
  };
}

/** Bytes after the first line of a reply, with their CR LF. */
function bodyLength(line: string): number {
  const [word, first, second] = line.split(" ");
  if (word === "RESERVED") return Number(second) + 2;
  return word === "OK" ? Number(first) + 2 : 0;
}
