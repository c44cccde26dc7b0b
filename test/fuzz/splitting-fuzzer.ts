// Fuzzer of splits: the same bytes in any pieces give the same replies, byte for byte, with cuts
// within CR LF, a word or a body.

import { COMMANDS } from "../../src/protocol/commands.ts";
import { differenceOf } from "../support/conversations/compare-replies.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { cutAt } from "./byte-mutations.ts";
import { CommandGrammar, JOB_BYTES_MAX } from "./command-grammar.ts";
import type { FuzzServer } from "./fuzz-server.ts";
import type { Difference, FuzzCase, Fuzzer } from "./fuzzer.ts";
import { bytesWithIds, CUT, textOf, writesOf } from "./piece.ts";
import { cutReplies, textOfReply, withRelativeIds } from "./reply-text.ts";
import { ServerFuzzer } from "./server-fuzzer.ts";
import { StreamModel, upToQuit } from "./stream-model.ts";
import { answerInProcess, answerOverSocket, type Layout, type Plant } from "./stream-target.ts";
import { expectationLines, replyLines, sentLines } from "./transcript-text.ts";

/** Streams up to this length are cut at each pair of places, those up to the next at each place. */
const PAIRS_BYTES_MAX = 32;
const SINGLE_BYTES_MAX = 150;
/** A stream up to this length is also sent byte by byte. */
const BYTEWISE_BYTES_MAX = 1500;
const RANDOM_CUTTINGS = 4;

/** Commands of many kinds in one stream, good and bad, with bodies, in tubes of their own. */
const MIXED_STREAM: string = [
  "use mixed",
  "put 0 0 60 5\r\na\r\nb\0",
  "bad",
  "put 1 0 60 0\r\n",
  "put 0 0 x 1",
  "peek-ready",
  "watch mixed",
  "ignore default",
  "reserve",
  "reserve-with-timeout 0",
  "reserve-with-timeout 0",
  "kick 5",
  `put 0 0 1 70001\r\n${"x".repeat(70_001)}`,
  "y".repeat(500),
  "put 0 0 60 1\r\nzz",
  "list-tubes-watched",
  "quit\r\n",
].join("\r\n");

function drawText(random: SeededRandom, length: number, oddness: number, commands = COMMANDS): string {
  const grammar = new CommandGrammar(random, oddness, commands);
  let text = "";
  while (text.length < length) text += grammar.command();
  return text;
}

/** The one thing in a reply of the server in this process that is not the same each time. */
function withoutProcessorTime(text: string): string {
  if (!text.includes("rusage")) return text;
  return text
    .replace(/OK \d+(?=\r\n---\ncurrent-jobs-urgent)/g, "OK n")
    .replace(/^(rusage-[us]time): .*$/gm, "$1");
}

function firstDifference(whole: string, cut: string): string {
  let at = 0;
  while (at < whole.length && whole[at] === cut[at]) at++;
  return `they differ from byte ${at} on`;
}

/**
 * In this process: each place, for short streams each pair of places, byte by byte, and some random
 * cuts.
 */
export class SplittingInProcess implements Fuzzer {
  readonly name = "splitting";
  readonly place = "in process";
  readonly #plant: Plant | undefined;

  constructor(plant?: Plant) {
    this.#plant = plant;
  }

  draw(seed: number): FuzzCase {
    const random = new SeededRandom(seed);
    const layout: Layout = {
      shards: random.pick([1, 1, 1, 3]),
      ringBytes: random.pick([4096, 65_536]),
      holdUps: 0,
      jobBytesMax: random.pick([10, 1000, JOB_BYTES_MAX]),
      seed,
    };
    const length = random.pick([1, 25, 100, 300, 1000]);
    const text = random.chance(0.02) ? MIXED_STREAM : drawText(random, length, random.pick([0.1, 0.5]));
    return { pieces: [{ client: 0, text }], layout };
  }

  /** A text with cuts is judged as it is cut; one without at all the places that are tried. */
  async judge({ pieces, layout }: FuzzCase): Promise<Difference | undefined> {
    if (layout === undefined) throw new Error("a case for a server in this process has a layout");
    const text = textOf(pieces);
    const plain = text.replaceAll(CUT, "");
    const whole = answerInProcess([bytesWithIds(plain)], layout, this.#plant);
    for (const cut of text.includes(CUT) ? [text] : cuttingsOf(plain, layout.seed)) {
      const answer = answerInProcess(writesOf(cut), layout, this.#plant);
      const isSame = withoutProcessorTime(answer.text) === withoutProcessorTime(whole.text);
      if (isSame && answer.hasEnded === whole.hasEnded) continue;
      return splittingDifference(cut, whole.text, answer.text, layout.jobBytesMax);
    }
    return undefined;
  }

  flagsOf({ layout }: FuzzCase): string {
    return `-z ${layout?.jobBytesMax}`;
  }

  async restart(): Promise<void> {}

  async finish(): Promise<void> {}

  async stop(): Promise<void> {}
}

function splittingDifference(cut: string, whole: string, got: string, jobBytesMax: number): Difference {
  const model = new StreamModel(jobBytesMax);
  model.feed(bytesWithIds(cut));
  const { replies, rest } = cutReplies(whole);
  const lines = replies.flatMap((reply, index) =>
    replyLines(0, reply, model.expectations[index]?.command ?? ""),
  );
  return {
    what: `in one piece and in ${cut.split(CUT).length}: ${firstDifference(whole, got)}`,
    expected: whole,
    got,
    transcript: [...sentLines(0, cut), ...lines, ...(rest === "" ? [] : expectationLines(0, [rest]))],
  };
}

/** The ways in which a stream is cut. A mark is one place, as is a byte. */
function* cuttingsOf(text: string, seed: number): Generator<string> {
  const { length } = text;
  if (length <= BYTEWISE_BYTES_MAX) yield [...text].join(CUT);
  if (length <= SINGLE_BYTES_MAX) for (let at = 1; at < length; at++) yield cutAt(text, [at]);
  if (length <= PAIRS_BYTES_MAX) {
    for (let first = 1; first < length; first++) {
      for (let second = first + 1; second < length; second++) yield cutAt(text, [first, second]);
    }
  }
  const random = new SeededRandom(seed ^ 0x5a5a5a5a);
  for (let count = 0; count < RANDOM_CUTTINGS; count++) yield randomCutting(random, text);
}

/** Cut at random, most of all beside CR LF. */
function randomCutting(random: SeededRandom, text: string): string {
  const positions: number[] = [];
  for (let at = 1; at < text.length; at += random.pick([1, 1, 3, 10, 300, 9000])) positions.push(at);
  for (const end of text.matchAll(/\r\n/g)) {
    if (random.chance(0.4)) positions.push(end.index + random.between(0, 2));
  }
  return cutAt(text, positions.filter((at) => at > 0 && at < text.length).slice(0, 400));
}

/** Streams that take longer may meet the end of a delay or TTR; they are sent again. */
const STREAMS_MS_MAX = 700;
const ATTEMPTS = 6;

/** Counters of the tube that outlives all connections, as those of the whole server. */
const TELLS_OF_EARLIER_STREAMS = /^name: default$/m;
const INSPECTS_DEFAULT = /^inspect-tube\s+default(?!\S)/;
/** Rows of `inspect-tube` about jobs and groups that were in the tube before. */
const EARLIER_COUNTS =
  /^(groups|groups-blocked|duplicates|rejected|expired|dead|moved-in|moved-out|disconnects): \d+$/gm;

/** Not those whose effects outlive jobs and connections: each stream is sent twice. */
const WITHOUT_TRACES = COMMANDS.filter(
  ({ word }) => !/schedule|^(?:open|commit|cancel|inspect)-batch|^list-batches/.test(word),
);

/** Over a socket with TCP_NODELAY, at random places. */
export class SplittingToServer extends ServerFuzzer {
  readonly name = "splitting";

  draw(seed: number): FuzzCase {
    const random = new SeededRandom(seed);
    const text = random.chance(0.05)
      ? MIXED_STREAM
      : drawText(random, random.pick([30, 200, 1000]), 0.2, WITHOUT_TRACES);
    return { pieces: [{ client: 0, text: randomCutting(random, text) }] };
  }

  async judge({ pieces }: FuzzCase): Promise<Difference | undefined> {
    const text = textOf(pieces);
    return await this.server.blamed(text, async (server) => {
      for (let attempt = 1; ; attempt++) {
        const startedAt = performance.now();
        const whole = await answeredWithRelativeIds(text.replaceAll(CUT, ""), server);
        const cut = await answeredWithRelativeIds(text, server);
        const difference = differenceOfAnswers(text, whole, cut);
        const tookMs = performance.now() - startedAt;
        if (difference === undefined || tookMs < STREAMS_MS_MAX || attempt === ATTEMPTS) return difference;
      }
    });
  }
}

function differenceOfAnswers(
  text: string,
  whole: readonly string[],
  cut: readonly string[],
): Difference | undefined {
  const model = new StreamModel(JOB_BYTES_MAX);
  model.feed(bytesWithIds(text));
  for (let index = 0; index < Math.max(whole.length, cut.length); index++) {
    const { command = "", line = "" } = model.expectations[index] ?? {};
    const answers = [whole[index], cut[index]];
    const told = INSPECTS_DEFAULT.test(line)
      ? answers.map((answer) => answer?.replace(EARLIER_COUNTS, "$1"))
      : answers;
    const [expected = "<nothing>", got = "<nothing>"] = told;
    if (command === "stats" || TELLS_OF_EARLIER_STREAMS.test(expected)) continue;
    if (differenceOf(command, expected, got) === undefined) continue;
    const { transcript } = splittingDifference(text, whole.join(""), cut.join(""), JOB_BYTES_MAX);
    return { what: `in one piece and cut: reply ${index + 1} (to ${command})`, expected, got, transcript };
  }
  return undefined;
}

/** The replies to `text` of a fresh server, and how the connection ended. */
async function answeredWithRelativeIds(text: string, server: FuzzServer): Promise<string[]> {
  const lastId = await server.tidy();
  const writes = upToQuit(writesOf(text, lastId), JOB_BYTES_MAX);
  const answer = await answerOverSocket(writes, server.address, () => new Promise(setImmediate));
  const { replies, rest } = cutReplies(answer.text);
  const end = `${rest}${answer.hasEnded ? "<EOF>" : "<nothing>"}`;
  return [...replies.map((reply) => textOfReply(withRelativeIds(reply, lastId))), end];
}
