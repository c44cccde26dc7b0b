// `put`: stores one job, or one for each line of stdin.

import { type Command, InvalidArgumentError, Option } from "commander";
import { optionsText } from "../../client/command-text.ts";
import { type Meta, metaText } from "../../client/meta.ts";
import { U32_MAX } from "../../protocol/limits.ts";
import { OptionKind, type OptionRow, PUT_OPTIONS } from "../../protocol/option-rows.ts";
import { wordOf } from "../../schema/names.ts";
import { batch, duration, seconds, tube, whole } from "../argument.ts";
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
  readonly meta?: Meta;
}

/** What each option of put-in-tube does. */
const DESCRIPTIONS: Readonly<Record<string, string>> = {
  unique: "refuse the job if the tube has one with this key",
  "unique-for": "with --unique: keep the key taken for at least this long",
  "unique-until": "with --unique: when the job gives up its key",
  ttl: "time to live: a job that waits longer expires",
  group: "group of the job",
  weight: "weight of the group",
  cost: "as how many jobs it counts for limits and its group's share",
  "on-duplicate": "with --unique: what to do with the waiting job that has the key",
  meta: "context of the job; may be repeated",
  "debounce-max": "with --on-duplicate debounce: ready this long after its own put at the latest",
  batch: "an open batch that the jobs belong to",
  after: "wait until this batch has ended; buried if a member has failed",
  "after-any": "wait until this batch has ended, with any outcome",
};

/** The option of the command line for one of put-in-tube. */
function optionOf({ name, kind, usage, words, min = 0, max = U32_MAX }: OptionRow): Option {
  const isTime = kind === OptionKind.Duration;
  const value = isTime
    ? "<time>"
    : words === undefined
      ? usage
      : `<${name === "unique-until" ? "when" : "what"}>`;
  const option = new Option(`--${name} ${value}`, DESCRIPTIONS[name] ?? "");
  if (words !== undefined) return option.choices(words);
  if (isTime) return option.argParser(duration);
  if (kind === OptionKind.Tube) return option.argParser(batch);
  if (kind === OptionKind.Number) return option.argParser(whole(min, max));
  return kind === OptionKind.Pair ? option.argParser(pair) : option;
}

/** Collects `name:value`. */
export function pair(text: string, before: Meta = {}): Meta {
  const colon = text.indexOf(":");
  if (colon < 1) throw new InvalidArgumentError("Allowed: name:value.");
  return { ...before, [text.slice(0, colon)]: text.slice(colon + 1) };
}

export function putCommand(): Command {
  const command = newCommand(
    "put <tube> [body]",
    "store a job; the body is read from stdin if it is missing or -",
    {
      tube,
    },
  )
    .option("--pri <n>", "priority: the smallest number is reserved first", whole(0, U32_MAX), "1024")
    .option("--delay <time>", "delay before the job is ready", duration, "0")
    .option("--ttr <time>", "time to run", seconds, "60");
  for (const row of PUT_OPTIONS) command.addOption(optionOf(row));
  return command
    .option("--lines", "store one job for each line of stdin")
    .action((tube: string, body: string | undefined, options: PutOptions, self: Command) => {
      const isFromStdin = body === undefined || body === "-";
      if (options.lines === true && !isFromStdin)
        self.error("error: --lines reads the jobs from stdin: give no body");
      const given = self.opts<Readonly<Record<string, string | undefined>>>();
      if (given["after"] !== undefined && given["afterAny"] !== undefined)
        self.error("error: a job waits for one batch: give either --after or --after-any");
      const extras = extrasOf(given, options.meta, self);
      return withWire(options, async (session) => {
        const { pri, delay, ttr } = options;
        const needed = neededFor(extras, delay);
        if (needed !== undefined) await session.needs(needed);
        const put = (bytes: Buffer): Promise<Put> =>
          putOne(session, tube, `${pri} ${delay} ${ttr}`, extras, bytes);
        const tellPut = ({ id, outcome }: Put): void => {
          if (options.json === true)
            print(outcome === "inserted" ? `{"id":${id}}` : `{"id":${id},"outcome":"${outcome}"}`);
          else print(`${id}`);
        };
        if (options.lines === true) return await putLines(put, tellPut);
        const done = await put(isFromStdin ? await readStdin() : Buffer.from(body));
        tellPut(done);
        if (done.outcome !== "inserted") tell(`runnerbean: ${done.outcome}: job ${done.id} has this key`);
      });
    });
}

function neededFor(extras: string, delay: string): string | undefined {
  if (/ (?:batch|after|after-any)=/.test(extras)) return "open-batch";
  return extras === "" && !delay.includes(".") ? undefined : "put-in-tube";
}

/** Options without effect where another one is missing. */
const NEEDED: Readonly<Record<string, string>> = {
  uniqueFor: "unique",
  uniqueUntil: "unique",
  onDuplicate: "unique",
  debounceMax: "onDuplicate",
};

/** Returns the options of put-in-tube. Refuses those that depend on a missing one. */
function extrasOf(
  given: Readonly<Record<string, string | undefined>>,
  meta: Meta | undefined,
  self: Command,
): string {
  for (const [option, needed] of Object.entries(NEEDED))
    if (given[option] !== undefined && given[needed] === undefined)
      self.error(`error: --${wordOf(option)} needs --${wordOf(needed)}`);
  const known = new Set(PUT_OPTIONS.map(({ name }) => name));
  const options = Object.entries(given).filter(([name]) => name !== "meta" && known.has(wordOf(name)));
  try {
    return optionsText(Object.fromEntries(options)) + metaText(meta ?? {});
  } catch (error) {
    return self.error(`error: ${(error as Error).message}`);
  }
}

interface Put {
  readonly id: number;
  /** "inserted", or what became of the job with the same key. */
  readonly outcome: string;
}

const OUTCOMES = "INSERTED DUPLICATE KEPT REPLACED ESCALATED DEBOUNCED";

async function putOne(
  session: WireSession,
  tube: string,
  numbers: string,
  extras: string,
  body: Buffer,
): Promise<Put> {
  const isPlain = extras === "" && !numbers.includes(".");
  const reply = isPlain
    ? await session.inTube(tube, `put ${numbers} ${body.length}`, "INSERTED", body)
    : await session.ask(`put-in-tube ${tube} ${numbers} ${body.length}${extras}`, OUTCOMES, body);
  return { id: countOf(reply), outcome: reply.words[0]!.toLowerCase() };
}

async function putLines(put: (body: Buffer) => Promise<Put>, tellPut: (done: Put) => void): Promise<void> {
  let [stored, failed] = [0, 0];
  const underWay = new Set<Promise<void>>();
  for await (const line of linesOf(process.stdin)) {
    const one = put(line).then(
      (done) => {
        stored++;
        tellPut(done);
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
