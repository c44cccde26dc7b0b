import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { commandListMarkdown, commandListText } from "../../../src/protocol/command-list.ts";
import { commandWords } from "../../../src/protocol/command-words.ts";
import {
  AUTH,
  COMMAND_OPS,
  COMMANDS,
  commandName,
  commandUsage,
  Op,
} from "../../../src/protocol/commands.ts";

const PAGE = new URL("../../../src/protocol/README.md", import.meta.url);
const LIST = /(<!-- commands: begin -->\n\n)([\s\S]*?)(\n\n<!-- commands: end -->)/;

describe("the table of commands", () => {
  it("has a row for each op, and one op and one word a row", () => {
    const ops = [...COMMANDS, AUTH].map(({ op }) => op);
    assert.deepEqual(
      [...ops].sort((a, b) => a - b),
      Object.values(Op).filter((op) => op !== Op.Unknown),
    );
    assert.equal(new Set(COMMANDS.map(commandName)).size, COMMANDS.length);
    for (const op of ops) assert.ok(op > 0 && op < COMMAND_OPS);
  });

  it("has the counters of `stats` in beanstalkd's order", () => {
    assert.deepEqual(COMMANDS.filter(({ inStats }) => inStats).map(commandName), [
      ...["put", "peek", "peek-ready", "peek-delayed", "peek-buried", "reserve", "reserve-with-timeout"],
      ...["delete", "release", "use", "watch", "ignore", "bury", "kick", "touch", "stats", "stats-job"],
      ...["stats-tube", "list-tubes", "list-tube-used", "list-tubes-watched", "pause-tube"],
    ]);
  });

  it("matches the list in src/protocol/README.md (UPDATE=1 npm test -- command-list writes it)", () => {
    const page = readFileSync(PAGE, "utf8");
    if (process.env["UPDATE"] === "1")
      writeFileSync(PAGE, page.replace(LIST, `$1${commandListMarkdown()}$3`));
    else assert.equal(LIST.exec(page)?.[2], commandListMarkdown());
  });

  it("matches --help", () => {
    const text = commandListText();
    // What is long is broken up, and its explanation stands below it.
    const words = text.replaceAll(/\s+/g, " ");
    for (const command of COMMANDS) assert.ok(words.includes(` ${commandUsage(command)} ${command.help} `));
    for (const line of text.split("\n")) assert.ok(line.length <= 130, line);
  });
});

describe("the words of commands", () => {
  it("are tried longest first if one begins another, else in the order of the table", () => {
    const words = (byte: string): string[] =>
      (commandWords(COMMANDS)[byte.charCodeAt(0)] ?? []).map(({ bytes }) => Buffer.from(bytes).toString());
    assert.deepEqual(words("r"), [
      "reserve-with-timeout ",
      "reserve-job ",
      "reserve-batch ",
      "reserve",
      "release ",
    ]);
    assert.deepEqual(words("l"), ["list-tubes-watched", "list-tubes", "list-tube-used", "list-jobs "]);
    assert.deepEqual(words("s"), ["stats-job ", "stats-tube ", "stats", "set-tube "]);
    assert.equal(words("p")[0], "put ");
    assert.deepEqual(words("x"), []);
  });
});
