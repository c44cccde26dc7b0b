// Proxy for clients that support neither TLS nor `auth`: it adds both on the way to the server.

import { createServer, type Server, type Socket } from "node:net";
import { dialer } from "../client/dial.ts";
import type { Target } from "./target.ts";

const DIAL_MS = 10_000;
const AUTHENTICATED = "AUTHENTICATED\r\n";
/** Maximum length of a reply to `auth`. */
const ANSWER_BYTES_MAX = 64;

interface ProxyOptions {
  readonly target: Target;
  /** Maximum of connections. More wait in the system's backlog. */
  readonly maxConnections: number;
  readonly onProblem: (message: string) => void;
}

/** Returns a server; the caller makes it listen. */
export function createProxy({ target, maxConnections, onProblem }: ProxyOptions): Server {
  const dial = dialer(target.address, target.ca === undefined ? undefined : { ca: target.ca }, DIAL_MS);
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (client) => {
    client.on("error", () => client.destroy());
    connect(dial, target).then(
      (upstream) => join(client, upstream),
      (error: Error) => {
        onProblem(`rejected a client: ${error.message}`);
        client.destroy();
      },
    );
  });
  server.maxConnections = maxConnections;
  return server;
}

async function connect(dial: () => Promise<Socket>, { token, limitMs }: Target): Promise<Socket> {
  const upstream = await dial();
  upstream.allowHalfOpen = true;
  upstream.on("error", () => upstream.destroy());
  if (token === undefined) return upstream;
  upstream.write(`auth ${token}\r\n`);
  try {
    await authenticated(upstream, limitMs);
  } catch (error) {
    upstream.destroy();
    throw error;
  }
  return upstream;
}

/** Relies on silence: the server sends nothing else before the next command. */
function authenticated(upstream: Socket, limitMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    let answer = "";
    const finish = (error?: Error): void => {
      clearTimeout(timer);
      upstream.off("data", onData).off("close", onClose).pause();
      if (error === undefined) resolve();
      else reject(error);
    };
    const onData = (chunk: Buffer): void => {
      answer += chunk.toString("latin1");
      if (answer === AUTHENTICATED) finish();
      else if (!AUTHENTICATED.startsWith(answer) || answer.length > ANSWER_BYTES_MAX)
        finish(new Error(`the server rejects the token: ${answer.trim().slice(0, ANSWER_BYTES_MAX)}`));
    };
    const onClose = (): void => finish(new Error("the server closed the connection"));
    const timer = setTimeout(() => finish(new Error("the server does not answer")), limitMs);
    upstream.on("data", onData).on("close", onClose);
  });
}

/** Pipes both ways with backpressure. A half-close is passed on; a close ends both. */
function join(client: Socket, upstream: Socket): void {
  client.setNoDelay(true);
  if (client.destroyed || upstream.destroyed) {
    client.destroy();
    upstream.destroy();
    return;
  }
  client.pipe(upstream);
  upstream.pipe(client);
  client.on("close", () => upstream.destroy());
  upstream.on("close", () => client.destroy());
}
