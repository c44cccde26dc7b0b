// Tests of the arguments that operator commands refuse before they send anything, with the allowed
// values.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Command } from "commander";
import { operatorCommands } from "../../../../src/cli/commands/operator-commands.ts";

/**
 * Returns what a command says of wrong arguments, or undefined if it accepts them; it is not run.
 */
function refusal(args: readonly string[]): string | undefined {
  let [said, isTaken] = ["", false];
  const program = new Command();
  for (const command of operatorCommands()) {
    command.exitOverride().configureOutput({
      writeErr: (text) => {
        said += text;
      },
    });
    program.addCommand(
      command.hook("preAction", () => {
        isTaken = true;
        throw new Error("it would be run");
      }),
    );
  }
  try {
    program.exitOverride().parse(args, { from: "user" });
  } catch {
    return isTaken ? undefined : said;
  }
  return undefined;
}

const U32 = "from 0 to 4294967295";

for (const [line, allowed] of [
  ["put a|b c", "'a|b' is invalid for argument 'tube'. Allowed: a tube name: 1 to 200 characters of"],
  [`put ${"a".repeat(201)} c`, "argument 'tube'"],
  ["put a b --pri x", `--pri <n>' argument 'x' is invalid. Allowed: a whole number ${U32}`],
  ["put a b --pri 4294967296", U32],
  ["put a b --pri 0x10", U32],
  ["put a b --pri 1.5", U32],
  ["put a b --pri 1e400", U32],
  ["put a b --pri 9007199254740993", U32],
  ["put a b --ttr NaN", U32],
  ["put a b --ttr Infinity", U32],
  ["put a b --ttr 1x", U32],
  ["put a b --delay -1", U32],
  ["put a b c", "too many arguments"],
  ["reserve a --wait -1", "from 0 to 2147483647"],
  ["reserve a --max many", U32],
  ["reserve a --max 1e3", U32],
  ["peek 99999999999999999999", "number of a job"],
  ["delete 18446744073709551616", "number of a job"],
  ["delete 1.5", "number of a job"],
  ["delete 1e3", "number of a job"],
  ["release -1", "number of a job"],
  ["reserve a --wait 2147483648", "from 0 to 2147483647"],
  ["jobs a --older 4294967296", "from 0 to 4294967295"],
  ["jobs a --older 1e400", "from 0 to 4294967295"],
  ["top --every 1e400", "from 0.001 to 86400"],
  ["top --every 2147484", "from 0.001 to 86400"],
  ["top --every NaN", "from 0.001 to 86400"],
  ["stats --timeout 0", "from 0.001 to 86400"],
  ["stats --timeout 86401", "from 0.001 to 86400"],
  ["peek a|b", "argument 'job'"],
  ["delete 1 a", "number of a job"],
  ["kick a -3", "argument 'count'"],
  ["kick a|b", "argument 'what'"],
  ["pause a 1.5", "argument 'time'"],
  ["resume *", "argument 'tube'"],
  ["tube a,b", "argument 'name'"],
  ["tubes --sort x", "Allowed choices are tube, ready"],
  ["jobs a --state ready,done", "ready, delayed, buried, reserved"],
  ["jobs a --older 1x", "from 0 to 4294967295"],
  ["jobs a --older 1.2345", "from 0 to 4294967295"],
  ["jobs a --limit 0", "from 1 to 4294967295"],
  ["jobs a* ", "argument 'tube'"],
  ["clear * --yes", "argument 'tube'"],
  ["move * a --yes", "argument 'tube'"],
  ["move a b* --yes", "argument 'to'"],
  ["update a --pri x", U32],
  ["update a --ttr 1.5", U32],
  ["update a --ttl x", "from 0 to 4294967295"],
  ["connections --state x", "Allowed choices are open, waiting, holding, closed"],
  ["connections --limit 1001", "from 1 to 1000"],
  ["connections --sort x", "Allowed choices are age, idle, held, bytes"],
  ["release a", "number of a job"],
  ["health --for x", "Allowed choices are put, work"],
  ["top -n 0", "above 0"],
  ["proxy --max-connections 0", "from 1 to"],
] as const)
  test(`${line.slice(0, 40)}: is refused with the allowed values`, () => {
    const said = refusal(line.trim().split(" ")) ?? "it was taken";
    assert.ok(said.includes(allowed), said);
  });

test("search text has 1 to 200 bytes on the wire", () => {
  for (const [text, isTaken] of [
    ["", false],
    ["a".repeat(200), true],
    ["a".repeat(201), false],
    [" ".repeat(66), true],
    [" ".repeat(67), false],
  ] as const)
    assert.equal(refusal(["jobs", "a", "--text", text]) === undefined, isTaken, `${text.length}`);
});

test("arguments that the server accepts aren't refused", () => {
  for (const line of [
    "put a --pri 0 --delay 4294967295 --ttr 0",
    `put ${"a".repeat(200)} -`,
    "put a+/;.$_()-9 x",
    "reserve a b --wait 0 --max 0 -- sh -c true",
    "peek 18446744073709551615",
    "peek a --buried",
    "delete 1 2 3",
    "kick a 0",
    "kick 7 --tube",
    "jobs * --older 1.5 --state ready,buried --limit 4294967295",
    "move a * --yes",
    "update * --pri 1 --delay 0.5 --ttl 0",
    "put a b --delay 5m --ttr 1h --unique k --meta a:b",
    "release 7",
    "connections --state closed --limit 1000 --sort idle --tube a",
    "health --for put",
    "top -n 2 --every 0.1",
  ])
    assert.equal(refusal(line.split(" ")), undefined, line);
});
