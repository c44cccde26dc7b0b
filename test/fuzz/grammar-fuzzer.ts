// Fuzzer of valid and nearly valid commands on two connections, to ours and to beanstalkd 1.12 in
// lockstep: every reply must be equal.

import { BEANSTALKD_COMMANDS } from "../support/conversations/command-lines.ts";
import { InconclusiveError } from "../support/conversations/lockstep-state.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { mutated } from "./byte-mutations.ts";
import { CommandGrammar, JOB_BYTES_MAX } from "./command-grammar.ts";
import type { Coverage } from "./coverage.ts";
import type { FuzzServerOptions } from "./fuzz-server.ts";
import type { Difference, FuzzCase } from "./fuzzer.ts";
import { CONVERSATION_CLIENTS, playConversation, SENT_BODY_BYTES_MAX } from "./paired-conversation.ts";
import { bytesWithIds, type Piece, textOf } from "./piece.ts";
import { ServerFuzzer } from "./server-fuzzer.ts";
import { ServerUnderTest } from "./server-under-test.ts";
import { StreamModel } from "./stream-model.ts";

/** A conversation that was too slow to tell is played so often. */
const ATTEMPTS = 6;

export class GrammarFuzzer extends ServerFuzzer {
  readonly name = "grammar";
  override readonly place = "server and beanstalkd";
  readonly #reference: ServerUnderTest;
  readonly #coverage: Coverage | undefined;
  readonly #settleMs: number | undefined;
  /** Conversations that were played again because the machine was too slow. */
  slowConversations = 0;

  /** `settleMs`: how long to wait for a reply before it counts as missing. */
  constructor(tested: FuzzServerOptions, coverage?: Coverage, settleMs?: number) {
    super(tested);
    this.#settleMs = settleMs;
    this.#reference = new ServerUnderTest({ kind: "beanstalkd-1.12", flags: [] });
    this.#coverage = coverage;
  }

  draw(seed: number): FuzzCase {
    const random = new SeededRandom(seed);
    const grammar = new CommandGrammar(random, random.pick([0.03, 0.12, 0.3]), BEANSTALKD_COMMANDS);
    const clients = random.between(1, CONVERSATION_CLIENTS);
    const pieces: Piece[] = [];
    for (let count = random.between(5, 30); count > 0; count--) {
      let text = grammar.command();
      for (let more = random.chance(0.2) ? random.between(1, 6) : 0; more > 0; more--)
        text += grammar.command();
      if (random.chance(0.04)) text = mutated(random, text);
      pieces.push({ client: random.between(0, clients - 1), text: completed(text, grammar) });
    }
    if (random.chance(0.3))
      pieces.push({ client: 0, text: random.pick(["quit\r\n", "quit now\r\n", "quitx\r\n"]) });
    return { pieces };
  }

  async judge({ pieces }: FuzzCase): Promise<Difference | undefined> {
    for (let attempt = 1; ; attempt++) {
      try {
        const reference = await this.#reference.get();
        return await this.server.blamed(textOf(pieces), (tested) =>
          playConversation(pieces, reference, tested, this.#coverage, this.#settleMs),
        );
      } catch (error) {
        if (!(error instanceof InconclusiveError)) throw error;
        this.slowConversations++;
        // Counters of what ended by itself may differ from now on.
        await this.restart();
        if (attempt === ATTEMPTS) return undefined;
      }
    }
  }

  override async stop(): Promise<void> {
    await Promise.all([this.#reference.stop(), super.stop()]);
  }
}

/** `text` with more commands until none is half sent, as far as that is possible. */
function completed(text: string, grammar: CommandGrammar): string {
  let all = text;
  for (let more = 0; more < 30; more++) {
    const model = new StreamModel(JOB_BYTES_MAX);
    model.feed(bytesWithIds(all));
    if (model.isBetweenCommands || model.bodyBytesMissing > SENT_BODY_BYTES_MAX) return all;
    if (model.bodyBytesMissing > 600) all += "f".repeat(model.bodyBytesMissing);
    else all += model.unfinishedLine === "" ? grammar.command() : "\r\n";
  }
  return all;
}
