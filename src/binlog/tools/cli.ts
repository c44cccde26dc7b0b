// `runnerbean binlog …`: commands for a log that no server uses.

import { Command } from "commander";
import { printableLines, segmentName } from "../../base/text.ts";
import type { ExportResult } from "../beanstalkd/beanstalkd-export.ts";
import { BinlogError, isSystemError, reasonOf, systemCode } from "../disk/binlog-error.ts";
import { inspectText } from "./inspect-log.ts";
import {
  compact,
  dump,
  dumpToFile,
  exportBeanstalkd,
  inspect,
  ownerHint,
  restore,
  restoreFromBackup,
  restoreFromFile,
  scrub,
  type ToolOptions,
  verify,
} from "./tools.ts";

/**
 * Exit codes: 1 if the log is damaged, 2 if the tool can't do its job, 10 if the directory is
 * unusable or in use.
 */
function exitCodeOf(error: BinlogError): number {
  if (error.code === "BINLOG_DIR" || error.code === "BINLOG_LOCKED") return 10;
  return error.code === "BINLOG_INPUT" ? 2 : 1;
}

/** The exit code that a shell reports for a program whose pipe reader has exited. */
const READER_GONE = 141;

/** The reader has exited (`| head`), or the output has no room. Neither needs a stack trace. */
function endWithOutput(error: Error): void {
  if (systemCode(error) === "EPIPE") process.exit(READER_GONE);
  process.stderr.write(`Cannot print: ${reasonOf(error)}\n`);
  process.exit(2);
}

/** Runs a tool; turns an operator's problem into two lines and an exit code. */
async function run(work: () => Promise<void>): Promise<void> {
  // `runnerbean` has a handler for all its commands, with other exit codes.
  process.stdout.removeAllListeners("error").on("error", endWithOutput);
  process.stderr.on("error", () => {});
  try {
    await work();
  } catch (error) {
    if (isSystemError(error)) {
      // The file came from the operator, and the system's message says what is wrong with it.
      tell(reasonOf(error));
      process.exitCode = 2;
      return;
    }
    if (!(error instanceof BinlogError)) throw error;
    tell(`${error.code}: ${error.message}\n  ${error.nextStep}`);
    process.exitCode = exitCodeOf(error);
  }
}

const print = (text: string) => process.stdout.write(`${printableLines(text)}\n`);
const tell = (text: string) => process.stderr.write(`${printableLines(text)}\n`);

const SALVAGE_TEXT = "also use intact data after a damaged place";

/** Returns the command to mount under `runnerbean`. */
export function binlogCommand(): Command {
  const binlog = new Command("binlog").description("inspect, check, copy and convert a log");
  addInspect(binlog);
  addVerify(binlog);
  addDump(binlog);
  addRestore(binlog);
  addCompact(binlog);
  addExport(binlog);
  return binlog;
}

/** Returns the command that makes a log from a backup. */
export function restoreCommand(): Command {
  return new Command("restore")
    .argument("<file>")
    .argument("<dir>")
    .description("make a log from a backup (- is stdin), in a directory without a log")
    .action((file: string, path: string) =>
      run(async () => {
        const options = { path, progress: progressOn(process.stderr) };
        const report = await restoreFromBackup(options, file === "-" ? undefined : file);
        for (const { code, message } of report.problems) tell(`${code}: ${message}`);
        if (report.problems.length > 0) {
          tell(
            "The log was damaged when it was copied: check it with runnerbean binlog verify, also on the server.",
          );
          process.exitCode = 1;
          return;
        }
        tell(`Restored ${report.jobs} jobs into ${path}${ownerHint(path)}`);
      }),
    );
}

/** Shows the progress in a line that is overwritten, on a terminal only. */
function progressOn(stream: NodeJS.WriteStream): (done: number, total: number) => void {
  if (!stream.isTTY) return () => {};
  let shown = -1;
  return (done, total) => {
    const percent = total === 0 ? 100 : Math.floor((done / total) * 100);
    if (percent === shown) return;
    shown = percent;
    stream.write(`\rrestoring: ${percent} %${percent === 100 ? "\n" : ""}`);
  };
}

function addInspect(binlog: Command): void {
  binlog
    .command("inspect <dir>")
    .description(
      "show segments, live and dead bytes, and jobs by tube and state; exits with 1 if the log is damaged",
    )
    .option("--json", "for programs")
    .action((path: string, { json }: { json?: boolean }) =>
      run(async () => {
        const report = await inspect({ path });
        print(json === true ? JSON.stringify(report, null, 2) : inspectText(report).trimEnd());
        // As in redis-check-aof: a script must not mistake a damaged log for an intact one.
        if (report.problems.length > 0) process.exitCode = 1;
      }),
    );
}

function addVerify(binlog: Command): void {
  binlog
    .command("verify <dir>")
    .description("read every byte; exits with 0 if the log is intact, with 1 if not")
    .action((path: string) =>
      run(async () => {
        const report = await verify({ path });
        for (const problem of report.problems)
          print(`${problem.code}: ${problem.message}\n  ${problem.nextStep}`);
        if (report.tornBytes > 0)
          print(`A write of ${report.tornBytes} bytes is unfinished; the next start truncates it.`);
        const verdict = report.whole ? "Whole" : "Damaged";
        print(`${verdict}: ${report.segments} segments, ${report.records} records, ${report.jobs} jobs`);
        process.exitCode = report.whole ? 0 : 1;
      }),
    );
}

/** Lists the damaged places of a log that no server uses. */
export function scrubDirectory(path: string): Promise<void> {
  return run(async () => {
    const { files, damage } = await scrub({ path });
    for (const { segment, offset, bytes, jobs, reason } of damage) {
      const whose = jobs.length === 0 ? "" : `, job ${jobs.join(", ")}`;
      print(`${segmentName(segment)} at offset ${offset}, ${bytes} bytes${whose}: ${reason}`);
    }
    print(`${damage.length} damaged places in ${files} files`);
    process.exitCode = damage.length === 0 ? 0 : 1;
  });
}

function addDump(binlog: Command): void {
  binlog
    .command("dump <dir> [file]")
    .description("write all jobs as JSON lines to a new file or to stdout")
    .option("--salvage", SALVAGE_TEXT)
    .action((path: string, file: string | undefined, { salvage }: { salvage?: boolean }) =>
      run(async () => {
        const options: ToolOptions = { path, salvage: salvage === true };
        const jobs =
          file === undefined ? await dump(options, process.stdout) : await dumpToFile(options, file);
        tell(`Dumped ${jobs} jobs`);
      }),
    );
}

function addRestore(binlog: Command): void {
  binlog
    .command("restore <file> <dir>")
    .description("create a log from a dump (- is stdin) in a directory that has none")
    .action((file: string, path: string) =>
      run(async () => {
        const jobs =
          file === "-" ? await restore({ path }, process.stdin) : await restoreFromFile({ path }, file);
        tell(`Restored ${jobs} jobs`);
      }),
    );
}

function addCompact(binlog: Command): void {
  binlog
    .command("compact <dir>")
    .description("rewrite the log so that only live jobs are left")
    .action((path: string) =>
      run(async () => {
        const { jobs, bytesBefore, bytesAfter } = await compact({ path });
        print(`${jobs} jobs; ${bytesBefore} bytes before, ${bytesAfter} bytes now`);
      }),
    );
}

function addExport(binlog: Command): void {
  binlog
    .command("export <dir> <out>")
    .description("write the jobs as a log that another server can read")
    .requiredOption("--beanstalkd", "for beanstalkd 1.12 and newer")
    .option("--salvage", SALVAGE_TEXT)
    .action((path: string, out: string, { salvage }: { salvage?: boolean }) =>
      run(async () => {
        const result = await exportBeanstalkd({ path, salvage: salvage === true }, out);
        print(`Exported ${result.jobs} jobs in ${result.files} files`);
        for (const line of droppedLines(result)) tell(line);
        if (result.neededMaxJobBytes > 0) {
          tell(
            `Start beanstalkd with -z ${result.neededMaxJobBytes} or more: it drops larger bodies when it reads them`,
          );
        }
      }),
    );
}

/** Lists the data that beanstalkd can't store, so that the operator learns of the loss now. */
function droppedLines(result: ExportResult): string[] {
  const { attributesDropped, jobsWithAttributes, keysDropped, settingsDropped, schedulesDropped } = result;
  const lines: string[] = [];
  if (attributesDropped > 0)
    lines.push(
      `Dropped ${attributesDropped} attributes of ${jobsWithAttributes} jobs (unique keys, groups, ttl, attempts): beanstalkd has none`,
    );
  if (keysDropped > 0)
    lines.push(`Dropped ${keysDropped} unique keys of jobs that no longer exist: beanstalkd has none`);
  if (result.waitsBuried > 0)
    lines.push(`Buried ${result.waitsBuried} jobs that wait for a batch: beanstalkd has none, so kick them`);
  if (result.cancelledDropped > 0)
    lines.push(`Dropped ${result.cancelledDropped} jobs that were cancelled while a worker held them`);
  if (schedulesDropped > 0) lines.push(`Dropped ${schedulesDropped} schedules: beanstalkd has none`);
  if (settingsDropped > 0) lines.push(`Dropped ${settingsDropped} settings of tubes: beanstalkd has none`);
  return lines;
}
