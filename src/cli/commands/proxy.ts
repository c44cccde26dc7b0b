// `proxy`: adds TLS and a token for clients that support neither.

import { createServer, type Server, type Socket } from "node:net";
import type { Command } from "commander";
import { dialer } from "../../client/wire.ts";
import { U32_MAX } from "../../protocol/limits.ts";
import { whole } from "../argument.ts";
import { CommandFailed, ExitCode, tell } from "../output.ts";
import { newCommand, withTarget } from "../run.ts";
import { listenOn, type Target, type TargetOptions } from "../target.ts";

// Proxy for clients that support neither TLS nor `auth`: it adds both on the way to the server.

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
function createProxy({ target, maxConnections, onProblem }: ProxyOptions): Server {
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

interface ProxyCommandOptions extends TargetOptions {
  readonly listen: string;
  readonly to?: string;
  readonly tokenFile?: string;
  readonly maxConnections: string;
}

export function proxyCommand(): Command {
  return newCommand("proxy", "listen for clients that support neither TLS nor tokens, and add both")
    .option("--listen <address>", "host:port or unix:PATH", "127.0.0.1:11300")
    .option("--to <url>", "the server, as tls://queue.example.org:11400 (the same as --url)")
    .option("--token-file <file>", "a file that holds the secret (the same as --token @FILE)")
    .option("--max-connections <n>", "maximum number of connections", whole(1, U32_MAX), "10000")
    .action((options: ProxyCommandOptions) =>
      withTarget(
        {
          ...options,
          ...(options.to === undefined ? {} : { url: options.to }),
          ...(options.tokenFile === undefined ? {} : { token: `@${options.tokenFile}` }),
        },
        async (target) => {
          if (target.kind !== "wire")
            throw new CommandFailed(
              "--to takes tls://host:port or beanstalk://host:port",
              ExitCode.BadArguments,
            );
          const maxConnections = Number(options.maxConnections);
          const server = createProxy({ target, maxConnections, onProblem: tell });
          const close = (): void => {
            server.close();
            process.exit(0);
          };
          for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, close);
          const where = await listenOn(server, options.listen);
          tell(`runnerbean proxy listens on ${where} for ${target.address}`);
        },
      ),
    );
}
