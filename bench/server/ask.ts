// Sends one command to a server over its own connection, for readiness and stats.
import net from "node:net";
import type { Address } from "../load/load-source.ts";

/**
 * The first line of the reply, and its body if it has one. Rejects if the connection fails or ends
 * before.
 */
export function ask(address: Address, command: string, timeoutMs: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = net.connect(address);
    let text = "";
    const fail = (error: Error) => {
      socket.destroy();
      reject(error);
    };
    socket.setTimeout(timeoutMs, () => fail(new Error(`no reply to ${command} within ${timeoutMs} ms`)));
    socket.on("error", fail);
    socket.on("close", () => reject(new Error(`closed before a reply to ${command}`)));
    socket.setEncoding("latin1").on("data", (chunk: string) => {
      text += chunk;
      const reply = wholeReply(text);
      if (reply === undefined) return;
      resolve(reply);
      socket.destroy();
    });
    socket.write(`${command}\r\n`);
  });
}

/** What has come, if that is a first line and its body. */
export function wholeReply(text: string): string | undefined {
  const lineEnd = text.indexOf("\r\n");
  const bodyBytes = Number(/^OK (\d+)\r\n/.exec(text)?.[1] ?? -2);
  return lineEnd < 0 || text.length < lineEnd + 2 + bodyBytes + 2 ? undefined : text.trimEnd();
}

/** A number out of a YAML reply such as that of `stats`; NaN if it isn't there. */
export function statOf(reply: string, key: string): number {
  return Number(new RegExp(`^${key}: "?(\\d+)`, "m").exec(reply)?.[1] ?? Number.NaN);
}
