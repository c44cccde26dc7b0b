// `shadow`: serves clients from their old server, repeats their commands to a new one, and reports
// the differences.

import type { Command } from "commander";
import { dialer } from "../../client/dial.ts";
import { U32_MAX } from "../../protocol/limits.ts";
import { whole } from "../argument.ts";
import { CommandFailed, ExitCode } from "../exit-code.ts";
import { listenOn } from "../listen-on.ts";
import { tell } from "../output.ts";
import { newCommand, withTarget } from "../run.ts";
import { JobIdMap } from "../shadow/job-ids.ts";
import { ShadowReport } from "../shadow/report.ts";
import { createShadowProxy } from "../shadow/shadow-proxy.ts";
import { type TargetOptions, targetOf } from "../target.ts";

const DIAL_MS = 10_000;
const REPORT_END_MS = 2000;

interface ShadowCommandOptions extends TargetOptions {
  readonly listen: string;
  readonly old: string;
  readonly new: string;
  readonly every: string;
  readonly maxConnections: string;
}

export function shadowCommand(): Command {
  return newCommand(
    "shadow",
    "serve clients from an old server, repeat their commands to a new one, and report what differs",
    {},
    ["url", "timeout", "json"],
  )
    .requiredOption("--old <url>", "the server that clients use now, such as beanstalk://127.0.0.1:11301")
    .requiredOption("--new <url>", "the server to try; --token and --ca are for it")
    .option("--listen <address>", "where clients connect: host:port or unix:PATH", "127.0.0.1:11300")
    .option("--every <seconds>", "print a summary at this interval", whole(1, 86_400), "60")
    .option("--max-connections <n>", "maximum number of connections", whole(1, U32_MAX), "10000")
    .action((options: ShadowCommandOptions) =>
      withTarget({ ...options, url: options.new }, async (target) => {
        const old = targetOf({ url: options.old }, {});
        for (const { kind } of [target, old])
          if (kind !== "wire")
            throw new CommandFailed(
              "--old and --new take beanstalk://host:port or tls://host:port",
              ExitCode.BadArguments,
            );
        const report = new ShadowReport();
        const ids = new JobIdMap();
        const server = createShadowProxy({
          dialOld: dialer(old.address, undefined, DIAL_MS),
          dialNew: dialer(target.address, target.ca === undefined ? undefined : { ca: target.ca }, DIAL_MS),
          token: target.token,
          maxConnections: Number(options.maxConnections),
          ids,
          report,
          onProblem: tell,
        });
        const timer = setInterval(() => report.summary(ids.unmapped), Number(options.every) * 1000);
        const close = async (): Promise<void> => {
          clearInterval(timer);
          server.close();
          report.summary(ids.unmapped);
          await report.end(REPORT_END_MS);
          process.exit(report.counts.different + report.counts.dropped === 0 ? 0 : ExitCode.Nothing);
        };
        for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => void close());
        const where = await listenOn(server, options.listen);
        tell(`runnerbean shadow listens on ${where} for ${old.address}, with ${target.address} beside it`);
      }),
    );
}
