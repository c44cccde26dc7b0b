// Plays one conversation with two servers at once and compares every reply.
//
// A piece is sent once everything before it is answered or waiting, so both servers see the same
// order. Deliberate differences to 1.12 (protocol/README.md 13 and 14) are not sent: the stream
// model knows them. That model also predicts the number of replies to a piece, and so must agree
// with both servers.

import { differenceOf } from "../support/conversations/compare-replies.ts";
import { LockstepSide } from "../support/conversations/lockstep-side.ts";
import { InconclusiveError } from "../support/conversations/lockstep-state.ts";
import { JOB_BYTES_MAX } from "./command-grammar.ts";
import type { Coverage } from "./coverage.ts";
import { isExpected } from "./expected-reply.ts";
import type { FuzzServer } from "./fuzz-server.ts";
import type { Difference } from "./fuzzer.ts";
import { bytesWithIds, type Piece, writesOf } from "./piece.ts";
import { cutReplies, type ReplyText, withRelativeIds } from "./reply-text.ts";
import { type Expectation, StreamModel } from "./stream-model.ts";
import { endLines, expectationLines, replyLines, sentLines } from "./transcript-text.ts";

export const CONVERSATION_CLIENTS = 2;
/** More than this of a body that is too big is not sent. */
export const SENT_BODY_BYTES_MAX = 200_000;
/** Time after which a reply counts as missing, ms. */
const SETTLE_MS = 8000;
/**
 * A conversation that takes longer may meet the end of a delay or TTR, at moments that no two
 * servers have in common.
 */
const CONVERSATION_MS_MAX = 700;

const GAUGES = ["current-jobs-ready", "current-jobs-reserved"] as const;

interface Talker {
  model: StreamModel;
  /** Replies compared so far. */
  compared: number;
  /** It has quit, or its body never ends. */
  isDone: boolean;
}

/** Returns the difference, or undefined. Throws InconclusiveError when it took too long to tell. */
export async function playConversation(
  pieces: readonly Piece[],
  reference: FuzzServer,
  tested: FuzzServer,
  coverage?: Coverage,
  settleMs: number = SETTLE_MS,
): Promise<Difference | undefined> {
  const [lastId, testedLastId] = [await reference.tidy(), await tested.tidy()];
  if (lastId !== testedLastId) {
    const [expected, got] = [`job ${lastId}`, `job ${testedLastId}`];
    return { what: "the conversation before took another number of ids", expected, got, transcript: [] };
  }
  const conversation = new PairedConversation(reference, tested, lastId, settleMs, coverage);
  const startedAt = performance.now();
  try {
    const difference = await conversation.play(pieces);
    const tookMs = performance.now() - startedAt;
    if (tookMs > CONVERSATION_MS_MAX && (difference === undefined || !conversation.isOverdue))
      throw new InconclusiveError(`the conversation took ${Math.round(tookMs)} ms`);
    return difference;
  } finally {
    conversation.close();
  }
}

class PairedConversation {
  /** A reply has not come in a time in which any machine would have answered. */
  isOverdue = false;
  readonly #servers: readonly [FuzzServer, FuzzServer];
  readonly #sides: readonly [LockstepSide, LockstepSide];
  readonly #talkers: readonly Talker[];
  readonly #lastId: number;
  readonly #settleMs: number;
  readonly #coverage: Coverage | undefined;
  readonly #transcript: string[] = [];
  /** Connections that have not been closed: the clients', the keeper's and the one that asks. */
  #connections = CONVERSATION_CLIENTS + 2;

  constructor(
    reference: FuzzServer,
    tested: FuzzServer,
    lastId: number,
    settleMs: number,
    coverage: Coverage | undefined,
  ) {
    this.#settleMs = settleMs;
    this.#servers = [reference, tested];
    this.#sides = [
      new LockstepSide("beanstalkd 1.12", reference.address),
      new LockstepSide("the tested server", tested.address),
    ];
    this.#lastId = lastId;
    this.#coverage = coverage;
    this.#talkers = Array.from({ length: CONVERSATION_CLIENTS }, () => ({
      model: new StreamModel(JOB_BYTES_MAX),
      compared: 0,
      isDone: false,
    }));
  }

  async play(pieces: readonly Piece[]): Promise<Difference | undefined> {
    for (const side of this.#sides) await side.open(CONVERSATION_CLIENTS);
    await this.#restWithConnections();
    for (const { client, text } of pieces) {
      const next = this.#playable(client, text);
      if (next === undefined) continue;
      this.#send(client, text, next);
      const difference = (await this.#settle()) ?? this.#compare();
      if (difference !== undefined) return difference;
      if (next.hasEnded) await this.#hasLeft(client);
    }
    for (const client of this.#talkers.keys()) {
      const difference = await this.#end(client);
      if (difference !== undefined) return difference;
    }
    return undefined;
  }

  close(): void {
    for (const side of this.#sides) side.closeAll();
  }

  /** The client's model with the piece in it, or undefined if the piece cannot be compared now. */
  #playable(client: number, text: string): StreamModel | undefined {
    const talker = this.#talkers[client]!;
    if (talker.isDone || this.#isWaiting(client)) return undefined;
    const next = talker.model.clone();
    const bytes = bytesWithIds(text, this.#lastId);
    next.feed(bytes);
    const isWhole = next.isBetweenCommands || next.bodyBytesMissing > SENT_BODY_BYTES_MAX;
    if (
      next.differsFrom112 ||
      !isWhole ||
      (next.hasEnded && next.consumed < talker.model.consumed + bytes.length)
    )
      return undefined;
    const fresh = next.expectations.slice(talker.model.expectations.length);
    // Ours reads the clock once for all commands that have come together: among jobs delayed by the
    // same command burst the smaller id is due first, where 1.12 counts nanoseconds.
    if (fresh.filter((expectation) => expectation.delays).length > 1) return undefined;
    const waits = fresh.findIndex((expectation) => expectation.mayWait);
    // The order of several waiting clients differs on purpose; commands behind a wait may run at
    // any moment.
    const maySend =
      waits < 0 || (waits === fresh.length - 1 && !this.#talkers.some((_, each) => this.#isWaiting(each)));
    return maySend && !(waits >= 0 && next.hasEnded) ? next : undefined;
  }

  #isWaiting(client: number): boolean {
    const { model, compared } = this.#talkers[client]!;
    return compared < model.expectations.length;
  }

  #send(client: number, text: string, next: StreamModel): void {
    const talker = this.#talkers[client]!;
    for (const expectation of next.expectations.slice(talker.model.expectations.length))
      this.#coverage?.command(expectation.command);
    if (next.hasEnded) this.#coverage?.command("quit");
    talker.model = next;
    talker.isDone = next.hasEnded || next.bodyBytesMissing > 0;
    for (const side of this.#sides)
      for (const bytes of writesOf(text, this.#lastId)) side.client(client).send(bytes);
    this.#transcript.push(...sentLines(client, text));
  }

  /** Waits until every reply has come, but for those of clients that wait for a job. */
  async #settle(): Promise<Difference | undefined> {
    for (const [index, side] of this.#sides.entries()) {
      const deadline = performance.now() + this.#settleMs;
      while (!(await this.#isSettled(side))) {
        if (performance.now() < deadline) continue;
        this.isOverdue = true;
        const open = this.#talkers.findIndex(
          ({ model }, client) => model.expectations.length > countOf(side, client),
        );
        const { expectations } = this.#talkers[open]!.model;
        const expectation = expectations[countOf(side, open)]!;
        const what = `${index === 0 ? "beanstalkd 1.12" : "the tested server"} does not answer`;
        return this.#difference(
          what,
          open,
          expectation,
          expectation.replies.join(" or "),
          side.client(open).rest,
        );
      }
    }
    return undefined;
  }

  /**
   * A connection's end releases its jobs a little after the connection is gone: what one server has
   * sent the other will.
   */
  #isBehind(side: LockstepSide): boolean {
    return this.#talkers.some((_, client) => countOf(side, client) < countOf(this.#sides[0], client));
  }

  async #isSettled(side: LockstepSide): Promise<boolean> {
    const { changes } = side;
    const open = this.#talkers.flatMap(
      ({ model }, client) => model.expectations[countOf(side, client)] ?? [],
    );
    if (open.length === 0) return true;
    if (!open.every((expectation) => expectation.mayWait)) {
      await side.changeAfter(changes, this.#settleMs);
      return false;
    }
    const stats = await side.stats();
    if (this.#isBehind(side)) return false;
    return side.changes <= changes + 1 && stats.get("current-waiting") === `${open.length}`;
  }

  #compare(): Difference | undefined {
    for (const [client, talker] of this.#talkers.entries()) {
      const [left, right] = this.#sides.map((side) => side.client(client).replies) as [string[], string[]];
      const { expectations } = talker.model;
      for (; talker.compared < Math.max(left.length, right.length); talker.compared++) {
        const [expected, got] = [left[talker.compared], right[talker.compared]];
        const expectation = expectations[talker.compared];
        if (expected === undefined || got === undefined || expectation === undefined) {
          return this.#difference(
            "not the same number of replies",
            client,
            expectation,
            expected ?? "<nothing>",
            got ?? "<nothing>",
          );
        }
        const line = expected.slice(0, expected.indexOf("\r\n"));
        this.#coverage?.reply(line);
        const problem =
          differenceOf(expectation.command, expected, got) ??
          (isExpected(line, expectation.replies)
            ? undefined
            : `the protocol says ${expectation.replies.join(" or ")}`);
        if (problem !== undefined) return this.#difference(problem, client, expectation, expected, got);
        this.#transcript.push(...this.#replyLines(client, expected, expectation));
      }
    }
    return undefined;
  }

  #replyLines(client: number, text: string, { command }: Expectation): string[] {
    const reply = cutReplies(text).replies[0] as ReplyText;
    return replyLines(client, withRelativeIds(reply, this.#lastId), command);
  }

  #difference(
    what: string,
    client: number,
    expectation: Expectation | undefined,
    expected: string,
    got: string,
  ): Difference {
    const transcript = [...this.#transcript, `# came: ${JSON.stringify(got.slice(0, 300))}`];
    if (cutReplies(expected).replies.length > 0 && expectation !== undefined)
      transcript.push(...this.#replyLines(client, expected, expectation));
    else transcript.push(...expectationLines(client, [expected]));
    return { what: `client ${client}: ${what}`, expected, got, transcript };
  }

  /** Half-closes the client: a wait ends, and nothing may be left that was not expected. */
  async #end(client: number): Promise<Difference | undefined> {
    if (this.#sides.every((side) => side.client(client).ended)) return undefined;
    for (const side of this.#sides) side.client(client).halfClose();
    this.#transcript.push(...endLines(client).slice(0, 1));
    const difference = (await this.#hasLeft(client)) ?? (await this.#settle()) ?? this.#compare();
    if (difference !== undefined) return difference;
    const [left = "", right = ""] = this.#sides.map((side) => side.client(client).rest);
    if (left !== right) return this.#difference("bytes at the end", client, undefined, left, right);
    return undefined;
  }

  /** Waits until both servers have closed the client's connection and released its jobs. */
  async #hasLeft(client: number): Promise<Difference | undefined> {
    for (const side of this.#sides) {
      const deadline = performance.now() + this.#settleMs;
      while (!side.client(client).ended) {
        if (performance.now() > deadline) {
          this.isOverdue = true;
          return this.#difference(
            `${side.name} does not close the connection`,
            client,
            undefined,
            "<EOF>",
            "<nothing>",
          );
        }
        await side.changeAfter(side.changes, this.#settleMs);
      }
      side.client(client).close();
    }
    this.#connections--;
    await this.#restWithConnections();
    const [reference, tested] = this.#servers;
    const wished = await reference.stats();
    // Ours releases a connection's jobs a little after the connection is gone.
    await tested.untilStats(
      (stats) => GAUGES.every((gauge) => stats.get(gauge) === wished.get(gauge)),
      `not the jobs of beanstalkd 1.12: ${GAUGES.map((gauge) => wished.get(gauge)).join(" ready, ")} reserved`,
    );
    return undefined;
  }

  async #restWithConnections(): Promise<void> {
    for (const server of this.#servers) await server.restsWith(this.#connections);
  }
}

const countOf = (side: LockstepSide, client: number): number => side.client(client).replies.length;
