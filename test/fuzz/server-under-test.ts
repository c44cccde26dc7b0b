// Running server of a fuzzer: started on first use, and blamed for errors around it.

import { InconclusiveError } from "../support/conversations/lockstep-state.ts";
import { JOB_BYTES_MAX } from "./command-grammar.ts";
import { FuzzServer, type FuzzServerOptions } from "./fuzz-server.ts";
import type { Difference } from "./fuzzer.ts";
import { sentLines } from "./transcript-text.ts";

export class ServerUnderTest {
  readonly #options: FuzzServerOptions;
  #server: FuzzServer | undefined;

  constructor(options: FuzzServerOptions) {
    this.#options = { ...options, flags: ["-z", `${JOB_BYTES_MAX}`, ...options.flags] };
  }

  async get(): Promise<FuzzServer> {
    this.#server ??= await FuzzServer.start(this.#options);
    return this.#server;
  }

  /** Judges with `judge`; an error of it, or the server's end, is a difference too. */
  async blamed(
    sent: string,
    judge: (server: FuzzServer) => Promise<Difference | undefined>,
  ): Promise<Difference | undefined> {
    const server = await this.get();
    try {
      const difference = await judge(server);
      if (difference !== undefined || !server.process.hasExited) return difference;
      throw new Error("The server is gone");
    } catch (error) {
      if (error instanceof InconclusiveError) throw error;
      const { stdout, stderr } = server.process;
      const got = `${error instanceof Error ? (error.stack ?? error.message) : error}\n${stdout}${stderr}`;
      return { what: "the server failed", expected: "any reply", got, transcript: sentLines(0, sent) };
    }
  }

  async finish(): Promise<void> {
    await this.#server?.expectEmpty();
  }

  async stop(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    await server?.stop();
  }
}
