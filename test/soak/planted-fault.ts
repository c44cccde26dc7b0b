// Planted faults between clients and server: the soak must notice each.

import { type AddressInfo, createConnection, createServer, type NetConnectOpts, type Socket } from "node:net";
import { WireClient } from "../support/server/wire-client.ts";
import type { Intermediary } from "./server-host.ts";

/**
 * Both directions of one connection, altered. `tell` sends a command on a connection of its own and
 * waits for the answer.
 */
interface Fault {
  request?(bytes: string, upstream: Socket): string;
  reply?(
    bytes: string,
    tell: (command: string) => Promise<string>,
    upstream: Socket,
  ): Promise<string> | string;
}

/** The fault strikes the n-th time that it could. */
const STRIKES_AT = 10;

export const FAULTS = {
  /** An acknowledged put is thrown away. */
  "lost-put": () => {
    let isDone = false;
    return {
      async reply(bytes, tell) {
        const id = /^INSERTED (\d+)\r\n$/.exec(bytes)?.[1];
        // It may be reserved already.
        if (id !== undefined && !isDone) isDone = (await tell(`delete ${id}`)) === "DELETED";
        return bytes;
      },
    };
  },
  /** A delete is acknowledged and not done. */
  "undeleted-job": () => {
    let seen = 0;
    const waiting = new WeakSet<Socket>();
    return {
      request(bytes, upstream) {
        const id = /^delete (\d+)\r\n$/.exec(bytes)?.[1];
        if (id === undefined || ++seen !== STRIKES_AT) return bytes;
        waiting.add(upstream);
        return `kick-job ${id}\r\n`;
      },
      reply(bytes, _tell, upstream) {
        if (!waiting.has(upstream) || !/^(KICKED|NOT_FOUND)\r\n$/.test(bytes)) return bytes;
        waiting.delete(upstream);
        return "DELETED\r\n";
      },
    };
  },
  /** A job stays in the queue while a client has it. */
  "two-holders": () => {
    const swallowing = new WeakSet<Socket>();
    let seen = 0;
    return {
      reply(bytes, _tell, upstream) {
        if (swallowing.has(upstream) && bytes.startsWith("RELEASED\r\n")) {
          swallowing.delete(upstream);
          return bytes.slice("RELEASED\r\n".length);
        }
        const id = /^RESERVED (\d+) \d+\r\n/.exec(bytes)?.[1];
        if (id !== undefined && ++seen % STRIKES_AT === 0) {
          swallowing.add(upstream);
          upstream.write(`release ${id} 0 0\r\n`);
        }
        return bytes;
      },
    };
  },
  /** One bit of a body is another. */
  "flipped-bit": () => {
    let seen = 0;
    return {
      reply(bytes) {
        if (!/^RESERVED \d+ \d{2,}\r\n/.test(bytes) || !bytes.endsWith("\r\n") || ++seen !== STRIKES_AT)
          return bytes;
        const at = bytes.length - 3;
        return bytes.slice(0, at) + String.fromCharCode(bytes.charCodeAt(at) ^ 1) + bytes.slice(at + 1);
      },
    };
  },
  /** An id is given a second time. */
  "id-again": () => {
    let first: string | undefined;
    let seen = 0;
    return {
      reply(bytes) {
        if (!/^INSERTED \d+\r\n$/.test(bytes)) return bytes;
        first ??= bytes;
        return ++seen === STRIKES_AT ? first : bytes;
      },
    };
  },
} as const satisfies Record<string, () => Fault>;

export type FaultName = keyof typeof FAULTS;

/** A proxy in front of every server of a run. */
export function plant(name: FaultName): Intermediary {
  const fault: Fault = FAULTS[name]();
  return async (target) => {
    // Gone at once, because connections are counted too.
    const tell = async (command: string): Promise<string> => {
      try {
        const teller = await WireClient.connect(target);
        const { line } = await teller.ask(command);
        teller.close();
        return line;
      } catch {
        // The server was killed meanwhile, as a soak does: the fault strikes another time.
        return "";
      }
    };
    const server = createServer({ allowHalfOpen: true }, (client) => join(client, target, fault, tell));
    server.unref();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return { port: (server.address() as AddressInfo).port, host: "127.0.0.1" };
  };
}

function join(
  client: Socket,
  target: NetConnectOpts,
  fault: Fault,
  tell: (command: string) => Promise<string>,
): void {
  const upstream = createConnection({ ...target, allowHalfOpen: true });
  client.setNoDelay(true);
  upstream.setNoDelay(true);
  client.on("data", (bytes) => {
    const text = bytes.toString("latin1");
    upstream.write(Buffer.from(fault.request?.(text, upstream) ?? text, "latin1"));
  });
  client.on("end", () => upstream.end());
  // In order, also where a fault takes its time.
  let before: Promise<unknown> = Promise.resolve();
  upstream.on("data", (bytes) => {
    before = before.then(async () => {
      const text = bytes.toString("latin1");
      client.write(Buffer.from((await fault.reply?.(text, tell, upstream)) ?? text, "latin1"));
    });
  });
  upstream.on("end", () => void before.then(() => client.end()));
  upstream.on("close", () => void before.then(() => client.destroySoon()));
  upstream.on("error", () => client.destroy());
  client.on("error", () => upstream.destroy());
  client.on("close", () => upstream.destroySoon());
}
