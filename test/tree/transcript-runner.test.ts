// Tests of the transcript runner itself: it must find every kind of wrong reply, or the transcripts
// prove nothing.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { runTranscript } from "../support/conversations/run-transcript.ts";
import { parseTranscript } from "../support/conversations/transcript.ts";
import type { TranscriptDriver } from "../support/conversations/transcript-driver.ts";

/** Answers every send with the next of the given texts; null is the end of the stream. */
class ScriptedDriver implements TranscriptDriver {
  readonly server = "ours";
  readonly log: string[] = [];
  readonly #replies: (string | null)[];
  #pending: (string | null)[] = [];

  constructor(replies: readonly (string | null)[]) {
    this.#replies = [...replies];
  }

  async connect(client: string): Promise<void> {
    this.log.push(`${client} connects`);
  }

  async send(client: string, bytes: Uint8Array): Promise<void> {
    this.log.push(`${client} sends ${Buffer.from(bytes).toString("latin1")}`);
    const reply = this.#replies.shift();
    if (reply !== undefined) this.#pending.push(reply);
  }

  async receive(): Promise<Uint8Array | null> {
    const next = this.#pending.shift();
    return next === null ? null : Buffer.from(next ?? "", "latin1");
  }

  async act(client: string, act: string): Promise<void> {
    this.log.push(`${client} ${act}`);
  }

  async advance(ms: number): Promise<void> {
    this.log.push(`wait ${ms}`);
  }

  async signal(name: string): Promise<void> {
    this.log.push(name);
  }
}

async function play(text: string, ...replies: readonly (string | null)[]): Promise<string[]> {
  const driver = new ScriptedDriver(replies);
  await runTranscript(parseTranscript("sample.txt", text), driver);
  return driver.log;
}

describe("runTranscript", () => {
  it("passes a conversation that goes as written", async () => {
    const log = await play(
      "A> use {a*3}\nA< USING aaa\nwait 0.5s\nA>> x\\x41\\s\\r\\n\nA<< 1\\r\\n2\nA: half-close\nserver: SIGUSR1",
      "USING aaa\r\n",
      "1\r\n2",
    );
    assert.deepEqual(log, [
      "A connects",
      "A sends use aaa\r\n",
      "wait 500",
      "A sends xA \r\n",
      "A half-close",
      "SIGUSR1",
    ]);
  });

  it("joins a reply in pieces, and splits two that arrive together", async () => {
    await play("A> a\nA> b\nA< USING t\nA< FOUND 2 3\nA< xyz", "USI", "NG t\r\nFOUND 2 3\r\nxyz\r\n");
  });

  it("plays only the lines of its server", async () => {
    await play("A> a\n[beanstalkd-1.12] A< WRONG\n[ours] A< RIGHT", "RIGHT\r\n");
  });

  it("matches only masks", async () => {
    await play('A> a\nA< pid: {int} "{any}" {hex16} {float}', 'pid: 42 "" 0123456789abcdef 0.123456\r\n');
    await assert.rejects(play("A> a\nA< pid: {int}", "pid: x\r\n"), /sample\.txt:2: client A on ours/);
    await assert.rejects(play("A> a\nA< a.c", "abc\r\n"), /expected "a\.c"/);
  });

  it("finds a wrong line, a missing reply, an early end and a late one", async () => {
    await assert.rejects(play("A> a\nA< YES", "NO\r\n"), /expected "YES"\n {2}got {6}"NO"/);
    await assert.rejects(play("A> a\nA< YES"), /got {6}"<nothing>"/);
    await assert.rejects(play("A> a\nA< YES", null), /got {6}"<EOF>"/);
    await assert.rejects(play("A> a\nA< <EOF>", "x"), /expected "<EOF>"/);
    await assert.rejects(play("A> a\nA< <EOF>"), /expected "<EOF>"/);
  });

  it("finds unexpected bytes, in the middle and at the end", async () => {
    await assert.rejects(play("A> a\nA< <nothing>", "x"), /expected "<nothing>"/);
    await assert.rejects(play("A> a\nA< <nothing>", null), /expected "<nothing>"/);
    await assert.rejects(play("A> a\nA< YES", "YES\r\nMORE\r\n"), /no more bytes at the end/);
  });

  it("finds an OK whose size differs from its body", async () => {
    await play("A> a\nA< OK {int}\nA<| ab\nA<", "OK 3\r\nab\n\r\n");
    await assert.rejects(
      play("A> a\nA< OK {int}\nA<| ab\nA<", "OK 4\r\nab\n\r\n"),
      /a body of the announced size/,
    );
  });

  it("checks the named fields of statistics", async () => {
    const reply = "OK 16\r\n---\na: 1\nb: two\n\r\n";
    await play("A? stats => a: 1, b: {any}", reply);
    await assert.rejects(play("A? stats => a: 2", reply), /expected "stats => a: 2"\n {2}got {6}"a: 1"/);
    await assert.rejects(play("A? stats => c: 2", reply), /c: <absent>/);
    await assert.rejects(play("A? stats => a: 1", "NOT_FOUND\r\n"), /got {6}"NOT_FOUND"/);
  });

  it("refuses steps that it can't parse", () => {
    for (const text of [
      "",
      "# only a comment",
      "A> a\nflags: -z 1",
      "a> x",
      "A: dance",
      "[theirs] A> x",
      "A? stats",
      "A> \\q",
    ]) {
      assert.throws(() => parseTranscript("sample.txt", text), /sample\.txt/, text);
    }
  });
});
