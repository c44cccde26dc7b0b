// `proxy`: adds TLS and a token for clients that support neither.

import type { Command } from "commander";
import { U32_MAX } from "../../protocol/limits.ts";
import { whole } from "../argument.ts";
import { CommandFailed, ExitCode } from "../exit-code.ts";
import { listenOn } from "../listen-on.ts";
import { tell } from "../output.ts";
import { createProxy } from "../proxy.ts";
import { newCommand, withTarget } from "../run.ts";
import type { TargetOptions } from "../target.ts";

interface ProxyOptions extends TargetOptions {
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
    .action((options: ProxyOptions) =>
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
