import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { ALL_PERMISSIONS } from "../../../src/access/identity.ts";
import { commandWords } from "../../../src/protocol/command-parser.ts";
import * as columns from "../../../src/protocol/commands.ts";
import {
  AUTH,
  COMMAND_CLASSES,
  COMMAND_OPS,
  COMMANDS,
  commandListText,
  commandName,
  commandUsage,
  FIELDS,
  Op,
  Route,
  Scope,
} from "../../../src/protocol/commands.ts";

const PAGE = new URL("../../../src/protocol/README.md", import.meta.url);
const LIST = /(<!-- commands: begin -->\n\n)([\s\S]*?)(\n\n<!-- commands: end -->)/;

/** Returns the commands as a Markdown table, with replies and sections. */
function commandListMarkdown(): string {
  const rows = [
    ["command", "what it does", "replies", "section"],
    ...[...COMMANDS, AUTH].map((command) => [
      // A bar would end the cell, even within code.
      `\`${commandUsage(command).replaceAll("|", "\\|")}\`${FIELDS[command.args].includes("bytes") ? ", body" : ""}`,
      command.help,
      command.replies.map(replyMarkdown).join(", "),
      command.section,
    ]),
  ];
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column]!)).join(" | ")} |`;
  const [head, ...body] = rows.map(line);
  return [head, `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`, ...body].join("\n");
}

/** Returns a reply with its wire words as code and the explanation as text. */
function replyMarkdown(reply: string): string {
  return reply.replace(/^[A-Z_]+(?: (?:[a-z]+=)?<[a-z ]+>)*/, (words) => `\`${words}\``);
}

describe("the table of commands", () => {
  it("has a row for each op, and one op and one word a row", () => {
    const ops = [...COMMANDS, AUTH].map(({ op }) => op);
    assert.deepEqual(
      [...ops].sort((a, b) => a - b),
      Object.values(Op)
        .filter((op) => op !== Op.Unknown)
        .sort((a, b) => a - b),
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

  it("matches the list in src/protocol/README.md (UPDATE=1 npm test -- protocol/commands writes it)", () => {
    const page = readFileSync(PAGE, "utf8");
    if (process.env["UPDATE"] === "1")
      writeFileSync(PAGE, page.replace(LIST, `$1${commandListMarkdown()}$3`));
    else assert.equal(LIST.exec(page)?.[2], commandListMarkdown());
  });

  it("matches --help", () => {
    const text = commandListText();
    // Long lines are broken up, with the explanation below.
    const words = text.replaceAll(/\s+/g, " ");
    for (const command of COMMANDS) assert.ok(words.includes(` ${commandUsage(command)} ${command.help} `));
    for (const line of text.split("\n")) assert.ok(line.length <= 130, line);
  });

  it("explains all commands in one column of --help, and breaks a usage only where it is full", () => {
    const lines = commandListText().split("\n");
    const helpAt = COMMANDS.map(({ help }) => lines.find((line) => line.endsWith(help))!.lastIndexOf(help));
    assert.deepEqual([...new Set(helpAt)], [helpAt[0]]);
    const broken = lines.filter((line, index) => /^ {4,20}\S/.test(line) && index > 0);
    assert.ok(broken.length > 3);
    for (const line of broken) {
      const before = lines[lines.indexOf(line) - 1]!;
      const [word] = line.trim().split(" ");
      assert.ok(before.length + word!.length > 100, `${word} fits behind: ${before}`);
    }
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
      "reserve-order ",
      "reserve",
      "release ",
      "resume-schedule ",
      "run-schedule ",
    ]);
    assert.deepEqual(words("l"), [
      "list-tubes-watched",
      "list-tubes",
      "list-tube-used",
      "list-jobs ",
      "list-schedules",
      "list-batches",
    ]);
    assert.deepEqual(words("s"), ["stats-job ", "stats-tube ", "stats", "set-tube ", "set-schedule "]);
    assert.equal(words("p")[0], "put ");
    assert.deepEqual(words("x"), []);
  });
});

// Tests of the table of commands by op: which commands each column names, and what it says of ops
// without a row.

const ops = (column: Uint8Array, value = 1): string[] =>
  Object.entries(Op)
    .filter(([, op]) => column[op] === value)
    .map(([name]) => name);
const ofClass = (name: (typeof COMMAND_CLASSES)[number]): string[] =>
  ops(columns.TIMING_OF, COMMAND_CLASSES.indexOf(name));

describe("the columns of the commands", () => {
  it("have a place for each op that a byte of a message may have", () => {
    for (const column of [columns.ROUTE_OF, columns.PERMISSION_OF, columns.SCOPE_OF, columns.TIMING_OF])
      assert.equal(column.length, COMMAND_OPS);
  });

  it("name the commands with a property", () => {
    assert.deepEqual(ops(columns.PASSES_BEFORE_AUTH), ["Quit"]);
    assert.deepEqual(ops(columns.DELETES), ["Delete", "DeleteBatch"]);
    assert.deepEqual(ops(columns.MOVES_JOBS), ["UpdateJob", "MoveJobs"]);
    assert.deepEqual(ops(columns.WAITS_FOR_TRANSFER), [
      "Delete",
      "ReserveJob",
      "KickJob",
      "UpdateJob",
      "CancelJob",
    ]);
  });

  it("time puts, reserves, deletes and all others", () => {
    assert.deepEqual(ofClass("put"), ["Put", "PutInTube"]);
    assert.deepEqual(ofClass("reserve"), ["Reserve", "ReserveWithTimeout", "ReserveJob", "ReserveBatch"]);
    assert.deepEqual(ofClass("delete"), ["Delete", "DeleteBatch"]);
    assert.equal(ofClass("other").length, Object.keys(Op).length - 8);
  });

  it("have the row of each op, and let no one use an op without a row", () => {
    assert.equal(columns.wordOf(Op.Touch), "touch ");
    assert.equal(columns.wordOf(Op.Auth), "auth ");
    assert.equal(columns.ROUTE_OF[Op.Touch], Route.Job);
    assert.equal(columns.SCOPE_OF[Op.Use], Scope.NamedTube);
    const known: readonly number[] = Object.values(Op);
    for (let op = 0; op < COMMAND_OPS; op++) {
      if (op !== Op.Unknown && known.includes(op)) continue;
      assert.equal(columns.wordOf(op), "<unknown>");
      assert.notEqual(columns.PERMISSION_OF[op], 0);
      assert.equal(columns.PERMISSION_OF[op]! & ALL_PERMISSIONS, 0, "no role has this permission");
      assert.equal(columns.TIMING_OF[op], COMMAND_CLASSES.indexOf("other"));
      const { PASSES_BEFORE_AUTH, DELETES, MOVES_JOBS, WAITS_FOR_TRANSFER } = columns;
      for (const column of [PASSES_BEFORE_AUTH, DELETES, MOVES_JOBS, WAITS_FOR_TRANSFER])
        assert.equal(column[op], 0);
    }
    assert.equal(columns.wordOf(COMMAND_OPS), "<unknown>");
  });
});
