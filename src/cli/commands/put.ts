// `put`: stores one job, or one for each line of stdin.

import type { Command } from "commander";
import { optionsText } from "../../client/command-text.ts";
import { U32_MAX } from "../../protocol/limits.ts";
import { batch, seconds, tube, whole } from "../argument.ts";
import { CommandFailed, ExitCode, print, tell } from "../output.ts";
import { type CommonOptions, newCommand, withWire } from "../run.ts";
import { countOf, type WireSession } from "../wire-session.ts";

/** Maximum of puts in progress. */
const UNDER_WAY_MAX = 1000;

interface PutOptions extends CommonOptions {
  readonly pri: string;
  readonly delay: string;
  readonly ttr: string;
  readonly lines?: true;
  readonly batch?: string;
  readonly after?: string;
  readonly afterAny?: string;
}

export function putCommand(): Command {
  return newCommand("put <tube> [body]", "store a job; the body is read from stdin if it is missing or -", {
    tube,
  })
    .option("--pri <n>", "priority: the smallest number is reserved first", whole(0, U32_MAX), "1024")
    .option("--delay <seconds>", "delay before the job is ready", seconds, "0")
    .option("--ttr <seconds>", "time to run", seconds, "60")
    .option("--batch <name>", "an open batch that the jobs belong to", batch)
    .option("--after <name>", "wait until this batch has ended; buried if a member has failed", batch)
    .option("--after-any <name>", "wait until this batch has ended, with any outcome", batch)
    .option("--lines", "store one job for each line of stdin")
    .action((tube: string, body: string | undefined, options: PutOptions, self: Command) => {
      const isFromStdin = body === undefined || body === "-";
      if (options.lines === true && !isFromStdin)
        self.error("error: --lines reads the jobs from stdin: give no body");
      if (options.after !== undefined && options.afterAny !== undefined)
        self.error("error: a job waits for one batch: give either --after or --after-any");
      return withWire(options, async (session) => {
        const { pri, delay, ttr, batch, after, afterAny } = options;
        const batches = optionsText({ batch, after, afterAny });
        if (batches !== "") await session.needs("open-batch");
        const put = (bytes: Buffer): Promise<string> =>
          putOne(session, tube, `${pri} ${delay} ${ttr}`, batches, bytes);
        const tellId = (id: string): void => print(options.json === true ? `{"id":${id}}` : id);
        if (options.lines === true) await putLines(put, tellId);
        else tellId(await put(isFromStdin ? await readStdin() : Buffer.from(body)));
      });
    });
}

/** Puts a job and returns its id. */
async function putOne(
  session: WireSession,
  tube: string,
  numbers: string,
  batches: string,
  body: Buffer,
): Promise<string> {
  if (batches !== "") {
    const line = `put-in-tube ${tube} ${numbers} ${body.length}${batches}`;
    return `${countOf(await session.ask(line, "INSERTED", body))}`;
  }
  const line = `put ${numbers} ${body.length}`;
  return `${countOf(await session.inTube(tube, line, "INSERTED", body))}`;
}

async function putLines(put: (body: Buffer) => Promise<string>, tellId: (id: string) => void): Promise<void> {
  let [stored, failed] = [0, 0];
  const underWay = new Set<Promise<void>>();
  for await (const line of linesOf(process.stdin)) {
    const one = put(line).then(
      (id) => {
        stored++;
        tellId(id);
      },
      (error: Error) => {
        if (failed++ === 0) tell(`runnerbean: ${error.message}`);
      },
    );
    const tracked: Promise<void> = one.finally(() => underWay.delete(tracked));
    underWay.add(tracked);
    if (underWay.size >= UNDER_WAY_MAX) await Promise.race(underWay);
  }
  await Promise.all(underWay);
  if (failed === 0) return;
  const exitCode = stored > 0 ? ExitCode.Partly : ExitCode.Nothing;
  throw new CommandFailed(`${stored} jobs are stored, ${failed} are not`, exitCode);
}

const LF = 0x0a;
const CR = 0x0d;

/**
 * Yields the lines, each without its LF or CR LF, byte for byte. `readline` would replace what is
 * no UTF-8, and end lines at U+2028 and U+2029, which JSON permits in strings.
 */
async function* linesOf(input: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let begun: Buffer[] = [];
  for await (const piece of input) {
    let at = 0;
    for (let end = piece.indexOf(LF); end >= 0; end = piece.indexOf(LF, at)) {
      yield lineOf([...begun, piece.subarray(at, end)]);
      begun = [];
      at = end + 1;
    }
    if (at < piece.length) begun.push(piece.subarray(at));
  }
  if (begun.length > 0) yield lineOf(begun);
}

function lineOf(pieces: readonly Buffer[]): Buffer {
  const line = Buffer.concat(pieces);
  return line.at(-1) === CR ? line.subarray(0, -1) : line;
}

export async function readStdin(): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of process.stdin) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}
