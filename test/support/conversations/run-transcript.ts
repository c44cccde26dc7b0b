// Plays a transcript against a driver, and fails with file, line, expected and actual reply.

import { setTimeout as sleep } from "node:timers/promises";
import type { BytePattern } from "../byte-pattern.ts";
import type { Step, Transcript } from "./transcript.ts";
import type { TranscriptDriver } from "./transcript-driver.ts";

const REPEAT_LIMIT_MS = 3000;
const REPEAT_PAUSE_MS = 10;

export async function runTranscript(transcript: Transcript, driver: TranscriptDriver): Promise<void> {
  const run = new TranscriptRun(transcript, driver);
  for (const step of transcript.steps) {
    if (step.only === undefined || step.only === driver.server) await run.step(step);
  }
  await run.finish();
}

/** Bytes that one client has received and the runner has not looked at. */
interface Inbox {
  text: string;
  ended: boolean;
  /** Bytes of the OK body still to come, as its reply line announced. */
  okBytesLeft: number | undefined;
}

class TranscriptRun {
  readonly #transcript: Transcript;
  readonly #driver: TranscriptDriver;
  readonly #inboxes = new Map<string, Inbox>();
  #lineNumber = 0;

  constructor(transcript: Transcript, driver: TranscriptDriver) {
    this.#transcript = transcript;
    this.#driver = driver;
  }

  async step(step: Step): Promise<void> {
    this.#lineNumber = step.lineNumber;
    switch (step.kind) {
      case "wait":
        return await this.#driver.advance(step.ms);
      case "signal":
        return await this.#driver.signal(step.signal);
      case "act":
        return await this.#act(step.client, step.act);
      case "send":
        await this.#inbox(step.client);
        return await this.#driver.send(step.client, step.bytes);
      case "expect-line":
        return await this.#expectLine(step.client, step.pattern, step.terminator);
      case "expect-bytes":
        return await this.#expectBytes(step.client, step.bytes.toString("latin1"));
      case "expect-nothing":
        return await this.#expectNothing(step.client);
      case "expect-end":
        return await this.#expectEnd(step.client);
      case "expect-fields":
        return await this.#expectFields(step.client, step.command, step.fields, step.repeated);
    }
  }

  /** After the last step no client may have bytes that the transcript does not mention. */
  async finish(): Promise<void> {
    await Promise.all(
      [...this.#inboxes].map(async ([client, inbox]) => {
        if (!inbox.ended) await this.#receive(client, inbox, "quiet");
        if (inbox.text !== "") this.#fail(client, "no more bytes at the end", inbox.text);
      }),
    );
  }

  async #inbox(client: string): Promise<Inbox> {
    const known = this.#inboxes.get(client);
    if (known !== undefined) return known;
    const fresh: Inbox = { text: "", ended: false, okBytesLeft: undefined };
    this.#inboxes.set(client, fresh);
    await this.#driver.connect(client);
    return fresh;
  }

  async #act(client: string, act: "connect" | "half-close" | "close" | "reset"): Promise<void> {
    if (act === "connect") {
      if (this.#inboxes.has(client)) this.#fail(client, "a client that is not connected yet", "one that is");
      await this.#inbox(client);
      return;
    }
    const inbox = await this.#inbox(client);
    await this.#driver.act(client, act);
    if (act !== "half-close") inbox.ended = true;
  }

  async #receive(client: string, inbox: Inbox, patience: "reply" | "quiet"): Promise<boolean> {
    if (inbox.ended) return false;
    const bytes = await this.#driver.receive(client, patience);
    if (bytes === null) inbox.ended = true;
    else inbox.text += Buffer.from(bytes).toString("latin1");
    return bytes !== null && bytes.length > 0;
  }

  async #expectLine(client: string, pattern: BytePattern, terminator: "\r\n" | "\n"): Promise<void> {
    const line = await this.#readLine(client, terminator, pattern.source);
    if (!pattern.matches(line)) this.#fail(client, pattern.source, line);
    await this.#countOkBytes(client, line, terminator);
  }

  /**
   * Checks that an OK reply carries as many bytes as its first line says, also where the transcript
   * masks the number.
   */
  async #countOkBytes(client: string, line: string, terminator: "\r\n" | "\n"): Promise<void> {
    const inbox = await this.#inbox(client);
    const ok = terminator === "\r\n" ? /^OK (\d+)$/.exec(line) : null;
    if (ok !== null) {
      inbox.okBytesLeft = Number(ok[1]);
    } else if (inbox.okBytesLeft !== undefined && terminator === "\n") {
      inbox.okBytesLeft -= line.length + 1;
    } else if (inbox.okBytesLeft !== undefined) {
      if (inbox.okBytesLeft !== 0)
        this.#fail(client, "a body of the announced size", `${inbox.okBytesLeft} bytes less`);
      inbox.okBytesLeft = undefined;
    }
  }

  async #readLine(client: string, terminator: "\r\n" | "\n", expected: string): Promise<string> {
    const inbox = await this.#inbox(client);
    for (;;) {
      const at = inbox.text.indexOf(terminator);
      if (at >= 0) {
        const line = inbox.text.slice(0, at);
        inbox.text = inbox.text.slice(at + terminator.length);
        return line;
      }
      if (!(await this.#receive(client, inbox, "reply"))) {
        this.#fail(client, expected, inbox.ended ? `${inbox.text}<EOF>` : `${inbox.text}<nothing>`);
      }
    }
  }

  async #expectBytes(client: string, expected: string): Promise<void> {
    const inbox = await this.#inbox(client);
    while (inbox.text.length < expected.length) {
      if (!(await this.#receive(client, inbox, "reply"))) this.#fail(client, expected, inbox.text);
    }
    const got = inbox.text.slice(0, expected.length);
    if (got !== expected) this.#fail(client, expected, got);
    inbox.text = inbox.text.slice(expected.length);
  }

  async #expectNothing(client: string): Promise<void> {
    const inbox = await this.#inbox(client);
    if (inbox.text === "") await this.#receive(client, inbox, "quiet");
    if (inbox.text !== "" || inbox.ended)
      this.#fail(client, "<nothing>", inbox.ended ? `${inbox.text}<EOF>` : inbox.text);
  }

  async #expectEnd(client: string): Promise<void> {
    const inbox = await this.#inbox(client);
    if (inbox.text === "") await this.#receive(client, inbox, "reply");
    if (!inbox.ended || inbox.text !== "") this.#fail(client, "<EOF>", inbox.text);
  }

  /**
   * Asks for statistics and looks at the named fields only; repeated until they are right where the
   * transcript says `?~`.
   */
  async #expectFields(
    client: string,
    command: string,
    fields: ReadonlyMap<string, BytePattern>,
    repeated: boolean,
  ): Promise<void> {
    const deadline = performance.now() + REPEAT_LIMIT_MS;
    for (;;) {
      const actual = await this.#readFields(client, command);
      const wrong = [...fields].filter(([key, pattern]) => !pattern.matches(actual.get(key) ?? "<absent>"));
      if (wrong.length === 0) return;
      if (!repeated || performance.now() > deadline) {
        const expected = wrong.map(([key, pattern]) => `${key}: ${pattern.source}`).join(", ");
        const got = wrong.map(([key]) => `${key}: ${actual.get(key) ?? "<absent>"}`).join(", ");
        this.#fail(client, `${command} => ${expected}`, got);
      }
      await sleep(REPEAT_PAUSE_MS);
    }
  }

  async #readFields(client: string, command: string): Promise<ReadonlyMap<string, string>> {
    await this.#inbox(client);
    await this.#driver.send(client, Buffer.from(`${command}\r\n`, "latin1"));
    const head = await this.#readLine(client, "\r\n", `OK (for ${command})`);
    const bytes = /^OK (\d+)$/.exec(head);
    if (bytes === null) this.#fail(client, `OK (for ${command})`, head);
    const body = await this.#readExactly(client, Number(bytes[1]) + 2);
    const fields = new Map<string, string>();
    for (const row of body.split("\n")) {
      const colon = row.indexOf(": ");
      if (colon > 0) fields.set(row.slice(0, colon), row.slice(colon + 2));
    }
    return fields;
  }

  async #readExactly(client: string, count: number): Promise<string> {
    const inbox = await this.#inbox(client);
    while (inbox.text.length < count) {
      if (!(await this.#receive(client, inbox, "reply"))) this.#fail(client, `${count} bytes`, inbox.text);
    }
    const bytes = inbox.text.slice(0, count);
    inbox.text = inbox.text.slice(count);
    return bytes;
  }

  #fail(client: string, expected: string, got: string): never {
    const where = `${this.#transcript.path}:${this.#lineNumber}`;
    throw new Error(
      `${where}: client ${client} on ${this.#driver.server}\n  expected ${short(expected)}\n  got      ${short(got)}`,
    );
  }
}

function short(text: string): string {
  const written = JSON.stringify(text);
  return written.length <= 400 ? written : `${written.slice(0, 400)}… (${text.length} bytes)`;
}
