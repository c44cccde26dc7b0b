// Fuzzer of random, mangled and mutated bytes: each command line gets exactly the reply that the
// protocol demands, and no other client notices.
//
// The stream model gives the expected replies. At the end of each stream, a command with a tube of
// its own checks that the connection is still in step.

import type { Address } from "../support/conversations/lockstep-side.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { mutated, randomBytes, withCuts, wordSoup } from "./byte-mutations.ts";
import { CommandGrammar, JOB_BYTES_MAX } from "./command-grammar.ts";
import type { Coverage } from "./coverage.ts";
import { isExpected } from "./expected-reply.ts";
import type { FuzzServerOptions } from "./fuzz-server.ts";
import type { Difference, FuzzCase, Fuzzer } from "./fuzzer.ts";
import { bytesWithIds, textOf, writesOf } from "./piece.ts";
import { cutReplies, textOfReply, withRelativeIds } from "./reply-text.ts";
import { ServerFuzzer } from "./server-fuzzer.ts";
import { StreamModel, upToQuit } from "./stream-model.ts";
import { type Answer, answerInProcess, answerOverSocket, type Layout, type Plant } from "./stream-target.ts";
import { endLines, expectationLines, replyLines, sentLines } from "./transcript-text.ts";

/** More than this of a body that is too big is not sent. */
const COMPLETED_BYTES_MAX = 200_000;

function drawText(random: SeededRandom): string {
  const kind = random.weighted({ random: 1, soup: 2, grammar: 3, mutated: 4 });
  if (kind === "random") return randomBytes(random, random.between(1, 2000));
  if (kind === "soup") return wordSoup(random, random.between(1, 60));
  const grammar = new CommandGrammar(random, random.pick([0.05, 0.3, 0.8]));
  let text = Array.from({ length: random.between(1, 20) }, () => grammar.command()).join("");
  if (random.chance(0.1)) text += "quit\r\nlist-tubes\r\n";
  if (kind === "mutated")
    for (let left = random.between(1, 6); left > 0; left--) text = mutated(random, text);
  return text;
}

function drawPieces(random: SeededRandom): FuzzCase["pieces"] {
  const text = drawText(random);
  return [{ client: 0, text: random.chance(0.5) ? withCuts(random, text, random.between(1, 8)) : text }];
}

/**
 * Bytes that bring the connection back to the beginning of a command, and a command whose reply
 * nothing else has.
 */
function sentinelAfter(text: string, jobBytesMax: number): string {
  const model = new StreamModel(jobBytesMax);
  model.feed(bytesWithIds(text));
  if (model.hasEnded || model.bodyBytesMissing > COMPLETED_BYTES_MAX) return "";
  const completion = model.unfinishedLine === "" ? "x".repeat(model.bodyBytesMissing) : "\r\n";
  return `${completion}use sentinel/7\r\nlist-tube-used\r\n`;
}

/** Compares what came for `text` with what had to. */
function judgeStream(
  text: string,
  answer: Answer,
  jobBytesMax: number,
  lastId: number,
  coverage?: Coverage,
): Difference | undefined {
  const model = new StreamModel(jobBytesMax);
  model.feed(bytesWithIds(text, lastId));
  const { replies, rest } = cutReplies(answer.text);
  const bodies = new Map<string, string>();
  const transcript = sentLines(0, text);
  const wrong = (what: string, expected: readonly string[], got: string): Difference => ({
    what,
    expected: expected.join(" or ") || "<nothing>",
    got,
    transcript: [
      ...transcript,
      `# came: ${JSON.stringify(got.slice(0, 300))}`,
      ...expectationLines(0, expected),
    ],
  });
  for (const [index, expectation] of model.expectations.entries()) {
    const reply = replies[index];
    coverage?.command(expectation.command);
    if (reply === undefined) {
      return wrong(
        `no reply ${index + 1}`,
        expectation.replies,
        rest + (answer.hasEnded ? "<EOF>" : "<nothing>"),
      );
    }
    coverage?.reply(reply.line);
    if (!isExpected(reply.line, expectation.replies)) {
      return wrong(`reply ${index + 1} is wrong`, expectation.replies, reply.line);
    }
    const [word = "", id = ""] = reply.line.split(" ");
    if (word === "INSERTED" && expectation.body !== undefined) bodies.set(id, expectation.body);
    const body = word === "RESERVED" || word === "FOUND" ? bodies.get(id) : undefined;
    if (body !== undefined && body !== reply.body) {
      return wrong(
        `reply ${index + 1} has another body`,
        [`${word} {int} ${body.length}`],
        textOfReply(withRelativeIds(reply, lastId)),
      );
    }
    transcript.push(...replyLines(0, withRelativeIds(reply, lastId), expectation.command));
  }
  const extra = replies[model.expectations.length];
  if (extra !== undefined || rest !== "") return wrong("one reply too many", [], extra?.line ?? rest);
  if (!answer.hasEnded) return wrong("the connection is not closed", ["<EOF>"], "<nothing>");
  if (answer.complaint === undefined) return undefined;
  return {
    ...wrong("something is left behind", [], answer.complaint),
    transcript: [...transcript, ...endLines(0)],
  };
}

/** Bytes into the parser and everything behind it, in this process. */
export class BytesInProcess implements Fuzzer {
  readonly name = "bytes";
  readonly place = "in process";
  readonly #coverage: Coverage | undefined;
  readonly #plant: Plant | undefined;

  constructor(coverage?: Coverage, plant?: Plant) {
    this.#coverage = coverage;
    this.#plant = plant;
  }

  draw(seed: number): FuzzCase {
    const random = new SeededRandom(seed);
    const layout: Layout = {
      shards: random.pick([1, 1, 2, 3]),
      ringBytes: random.pick([4096, 65_536]),
      holdUps: random.pick([0, 0, 0.3]),
      jobBytesMax: random.pick([0, 10, 1000, JOB_BYTES_MAX]),
      seed,
    };
    return { pieces: drawPieces(random), layout };
  }

  async judge({ pieces, layout }: FuzzCase): Promise<Difference | undefined> {
    if (layout === undefined) throw new Error("a case for a server in this process has a layout");
    const text = textOf(pieces);
    const all = text + sentinelAfter(text, layout.jobBytesMax);
    try {
      const answer = answerInProcess(writesOf(all), layout, this.#plant);
      return judgeStream(all, answer, layout.jobBytesMax, 0, this.#coverage);
    } catch (error) {
      const got = error instanceof Error ? (error.stack ?? error.message) : `${error}`;
      return { what: "the server failed", expected: "any reply", got, transcript: sentLines(0, all) };
    }
  }

  flagsOf({ layout }: FuzzCase): string {
    return `-z ${layout?.jobBytesMax}`;
  }

  async restart(): Promise<void> {}

  async finish(): Promise<void> {}

  async stop(): Promise<void> {}
}

/** Bytes to a running server, which must neither end nor grow nor keep anything. */
export class BytesToServer extends ServerFuzzer {
  readonly name = "bytes";
  readonly #coverage: Coverage | undefined;

  constructor(options: FuzzServerOptions, coverage?: Coverage) {
    super(options);
    this.#coverage = coverage;
  }

  draw(seed: number): FuzzCase {
    const random = new SeededRandom(seed);
    const pieces = drawPieces(random);
    return random.chance(0.15) ? { pieces, abandon: random.pick(["close", "reset"]) } : { pieces };
  }

  async judge({ pieces, abandon }: FuzzCase): Promise<Difference | undefined> {
    const text = textOf(pieces);
    const all = text + sentinelAfter(text, JOB_BYTES_MAX);
    return await this.server.blamed(all, async (server) => {
      const lastId = await server.tidy();
      let difference: Difference | undefined;
      if (abandon !== undefined) {
        await abandonAfter(writesOf(text, lastId), server.address, abandon);
      } else {
        const writes = upToQuit(writesOf(all, lastId), JOB_BYTES_MAX);
        const answer = await answerOverSocket(writes, server.address, () => new Promise(setImmediate));
        difference = judgeStream(all, answer, JOB_BYTES_MAX, lastId, this.#coverage);
      }
      if (difference === undefined) await server.tidy();
      return difference;
    });
  }
}

/** Goes away without reading, or in the middle of a reply. */
async function abandonAfter(
  writes: readonly string[],
  address: Address,
  how: "close" | "reset",
): Promise<void> {
  const client = await WireClient.connect(address);
  for (const bytes of writes) client.send(bytes);
  if (writes.length > 2) await client.readSome(2);
  if (how === "close") client.close();
  else client.reset();
}
