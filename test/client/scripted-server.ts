// Scripted server that replies as a test demands: for replies of a real one only when it is out of
// memory, old, or no server at all.

import { createServer, type Server, type Socket } from "node:net";
import type { TestContext } from "node:test";

/**
 * Returns what is sent back, or undefined for nothing; `quit` ends then, but for "". Lines of
 * bodies are lines, too.
 */
export type Answer = (line: string, connection: number, socket: Socket) => string | undefined;

export interface ScriptedServer {
  readonly address: string;
  /** All lines that came, of all connections, but for the question below. */
  readonly lines: readonly string[];
}

/**
 * What a server says about its identity, which each connection asks once before it gets a job. A
 * script that knows the question answers it itself.
 */
const IDENTITY: Readonly<Record<string, string>> = {
  stats: "OK 15\r\n---\nid: abcd12\n\r\n",
  origins: "OK 16\r\n---\nabcd12: all\n\r\n",
};

export async function scriptedServer(t: TestContext, answer: Answer): Promise<ScriptedServer> {
  const lines: string[] = [];
  const sockets = new Set<Socket>();
  const server: Server = createServer((socket) => {
    const connection = sockets.size;
    sockets.add(socket);
    socket.on("error", () => {});
    let rest = "";
    socket.setEncoding("latin1").on("data", (text: string) => {
      const [last = "", ...whole] = `${rest}${text}`.split("\r\n").reverse();
      rest = last;
      for (const line of whole.reverse()) {
        const answered = answer(line, connection, socket);
        const reply = answered ?? IDENTITY[line];
        if (answered === reply) lines.push(line);
        if (reply !== undefined) socket.write(reply, "latin1");
        else if (line === "quit") socket.end();
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const address = server.address();
  if (typeof address !== "object" || address === null) throw new Error("unreachable: no port");
  return { address: `127.0.0.1:${address.port}`, lines };
}
