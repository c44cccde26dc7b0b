// Plays the examples of docs/commands.md: each code block marked `transcript`, on its own server.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { commandName, EXTENSIONS } from "../../src/protocol/commands.ts";
import { InProcessDriver } from "../simulation/server/in-process-driver.ts";
import { InProcessServer } from "../simulation/server/in-process-server.ts";
import { runTranscript } from "../support/conversations/run-transcript.ts";
import { parseTranscript } from "../support/conversations/transcript.ts";
import { SeededRandom } from "../support/seeded-random.ts";

const PAGE = "docs/commands.md";
const EXAMPLE = /^```transcript\n([\s\S]*?)^```$/gm;

interface Example {
  /** The heading above it. */
  readonly heading: string;
  readonly line: number;
  /** As a transcript has it. */
  readonly text: string;
}

/** An OK reply that the page shows in part. */
const SHOWN_IN_PART = /^> (.*)\n< OK \{int\}\n((?:< [\w-]+: .*\n)+)< \.\.\.$/gm;

/** A conversation that the page shows as a whole, except for the end. */
const SHOWN_AS_WHOLE = /^< OK \{int\}\n((?:< .*\n)+)/gm;

/** The client has no name on the page, and is A. */
function asTranscript(example: string): string {
  return example
    .replace(SHOWN_IN_PART, (_, command: string, rows: string) => {
      const fields = rows
        .trimEnd()
        .split("\n")
        .map((row) => row.slice(2));
      return `A? ${command} => ${fields.join(", ")}`;
    })
    .replace(SHOWN_AS_WHOLE, (_, rows: string) => `< OK {int}\n${rows.replace(/^</gm, "<|")}<< \\r\\n\n`)
    .replace(/^(?=[<>])/gm, "A");
}

function examplesOf(page: string): Example[] {
  return [...page.matchAll(EXAMPLE)].map(({ index, 1: text }) => {
    const before = page.slice(0, index);
    const heading = [...before.matchAll(/^## (.*)$/gm)].at(-1)?.[1] ?? "";
    return { heading, line: before.split("\n").length, text: asTranscript(text!) };
  });
}

const page = readFileSync(new URL(`../../${PAGE}`, import.meta.url), "utf8");
const examples = examplesOf(page);

describe(PAGE, () => {
  for (const { heading, line, text } of examples)
    it(`line ${line}: ${heading}`, async () => {
      const random = new SeededRandom(1);
      const server = new InProcessServer({ shards: 3, acceptors: 1, random });
      await runTranscript(
        parseTranscript(`${PAGE}, example of line ${line}`, text),
        new InProcessDriver(server),
      );
    });

  it("has a section with an example for each command that beanstalkd does not have", () => {
    const shown = examples.map(({ heading }) => heading.split(":")[0]!).flatMap((names) => names.split(", "));
    assert.deepEqual(
      EXTENSIONS.map(commandName).filter((name) => !shown.includes(name)),
      [],
    );
  });

  it("fails for an example with a wrong reply (canary)", async () => {
    const wrong = examplesOf(page.replaceAll("< INSERTED 1", "< INSERTED 2")).filter(
      ({ text }, index) => text !== examples[index]!.text,
    );
    assert.ok(wrong.length > 0);
    for (const { text } of wrong) {
      const server = new InProcessServer({ shards: 3, acceptors: 1, random: new SeededRandom(1) });
      await assert.rejects(
        runTranscript(parseTranscript(PAGE, text), new InProcessDriver(server)),
        /INSERTED/,
      );
    }
  });
});
