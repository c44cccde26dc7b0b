// Listens on the address that --listen names.

import type { Server } from "node:net";
import { CommandFailed, ExitCode } from "./exit-code.ts";

const PORT_MAX = 65_535;

/** Resolves with the address that the server listens on. Throws CommandFailed if it can't. */
export async function listenOn(server: Server, text: string): Promise<string> {
  const where = whereOf(text);
  await new Promise<void>((resolve, reject) => {
    server.once("listening", resolve);
    server.once("error", ({ message }) => {
      reject(new CommandFailed(`cannot listen on ${text}: ${message}`, ExitCode.NoConnection));
    });
    server.listen(where);
  });
  const bound = server.address();
  return bound !== null && typeof bound === "object" ? `${bound.address}:${bound.port}` : `${bound}`;
}

function whereOf(text: string): { path: string } | { host: string; port: number } {
  if (text.startsWith("unix:")) return { path: text.slice(5) };
  const [, v6, host, port] = /^(?:\[([\da-fA-F:.]+)\]|([^:[\]\s]+)):(\d{1,5})$/.exec(text) ?? [];
  if (port === undefined || Number(port) > PORT_MAX)
    throw new CommandFailed(`${text} is not a valid address: host:port or unix:PATH`, ExitCode.BadArguments);
  return { host: v6 ?? host!, port: Number(port) };
}
