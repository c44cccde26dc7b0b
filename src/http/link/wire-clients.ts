// In-memory connections: one shared by commands that need no state of their own, and further ones
// on request.

import type { AcceptorCore } from "../../acceptor/connection/acceptor-core.ts";
import { WireConnection, type WireReply } from "./wire-connection.ts";

export class WireClients {
  readonly #core: AcceptorCore;
  readonly #wake: () => void;
  #general: WireConnection | undefined;

  constructor(core: AcceptorCore, wake: () => void) {
    this.#core = core;
    this.#wake = wake;
  }

  /** Opens a separate connection. The caller must close it. */
  open(): WireConnection {
    return new WireConnection(this.#core, this.#wake);
  }

  /** Sends a command that does not depend on used or watched tubes. */
  command(line: string): Promise<WireReply> {
    return this.#shared.command(line);
  }

  /**
   * Sends a command with a body of `length` bytes, which is not a put, and returns the line of its
   * reply.
   */
  async commandWith(line: string, body: Uint8Array | string, length: number): Promise<string> {
    const outcome = await this.#shared.put(line, body, length);
    return "id" in outcome ? `INSERTED ${outcome.id}` : outcome.refusal;
  }

  get #shared(): WireConnection {
    if (this.#general === undefined || this.#general.isOver) this.#general = this.open();
    return this.#general;
  }

  /**
   * Sends `stats`, `stats-job …` and returns the pairs of the YAML in order, or undefined for
   * NOT_FOUND.
   */
  async stats(line: string): Promise<[key: string, value: string | number | boolean][] | undefined> {
    const { body } = await this.command(line);
    if (body === undefined) return undefined;
    const lines = body.toString("latin1").trimEnd().split("\n").slice(1);
    return lines.map((each) => {
      const colon = each.indexOf(": ");
      return [each.slice(0, colon), plainValue(each.slice(colon + 2))];
    });
  }
}

function plainValue(text: string): string | number | boolean {
  if (text.startsWith('"')) return text.slice(1, -1);
  if (text === "true" || text === "false") return text === "true";
  return /^-?[0-9]+(?:\.[0-9]+)?$/.test(text) ? Number(text) : text;
}
