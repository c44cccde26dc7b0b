// Tests of the completion scripts for commands, options and tubes, each in its shell. The tubes'
// names are hostile.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, it, type TestContext } from "node:test";
import { completionScript } from "../../src/cli/commands/completion.ts";
import { SUBCOMMAND_WORDS } from "../../src/server/options/program.ts";
import { allCommands } from "../../src/server/tools/subcommands.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { runTool } from "../support/server/tool.ts";

type Tree = Awaited<ReturnType<typeof allCommands>>;
type Complete = (...words: string[]) => string[];

/** Valid names of tubes that a shell must not expand. */
const HOSTILE = "$(touch$IFS$WITNESS)";
const TUBES = ["mail", "token", HOSTILE];

/** Runs `program`, with a `runnerbean` that knows these tubes; the words are its arguments. */
function inShell(t: TestContext, shell: "bash" | "zsh" | "fish", tree: Tree, program: string) {
  const folder = temporaryFolder(t, `completion-${shell}`);
  const script = join(folder, "script");
  writeFileSync(script, completionScript(shell, tree));
  const names = TUBES.map((name) => `'${name}'`).join(" ");
  writeFileSync(
    join(folder, "runnerbean"),
    `#!/bin/sh\n[ "$*" = "tubes --names" ] && printf '%s\\n' ${names}\n`,
  );
  chmodSync(join(folder, "runnerbean"), 0o755);
  const witness = join(folder, "witness");
  const env = {
    ...process.env,
    PATH: `${folder}:${process.env["PATH"]}`,
    SCRIPT: script,
    WITNESS: witness,
    HOME: folder,
  };
  const flags = {
    bash: ["--norc", "-c", program, "bash"],
    zsh: ["-f", "-c", program, "zsh"],
    fish: ["--no-config", "-c", program],
  };
  const complete: Complete = (...words) => {
    const found = execFileSync(shell, [...flags[shell], "runnerbean", ...words], {
      env,
      cwd: folder,
      encoding: "utf8",
    });
    return found.split("\n").filter((line) => line !== "");
  };
  return { complete, wasObeyed: () => existsSync(witness) };
}

const BASH = `source "$SCRIPT"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _runnerbean; printf '%s\\n' "\${COMPREPLY[@]}"`;
// compadd itself works only interactively; it compares, and quotes what it inserts.
const ZSH = `compdef() {}
_files() { print -r -- FILES }
typeset -A compstate; compstate[nmatches]=0
compadd() {
  shift
  for each in "$@"; do [[ $each == "$words[CURRENT]"* ]] && { print -r -- "$each"; ((compstate[nmatches]++)); }; done
}
source "$SCRIPT"; words=("$@"); CURRENT=$#; _runnerbean; true`;
const FISH = `source $SCRIPT; complete -C (string join ' ' -- $argv) | string replace -r '\\t.*' ''; true`;

describe("completion", () => {
  let tree: Tree;
  before(async () => {
    tree = await allCommands();
  });

  it("knows every tool, and the tool prints it for each shell", async () => {
    assert.deepEqual(tree.commands.map((command) => command.name()).sort(), [...SUBCOMMAND_WORDS].sort());
    for (const shell of ["bash", "zsh", "fish"] as const) {
      const { stdout, code } = await runTool(["completion", shell]);
      assert.deepEqual([code, stdout], [0, `${completionScript(shell, tree)}\n`]);
      for (const word of SUBCOMMAND_WORDS) assert.ok(stdout.includes(word), `${shell}: ${word}`);
    }
  });

  /** The same in all shells; `shown` is how the hostile name stands among what is offered. */
  function expectWords(complete: Complete, shown: string): void {
    const words = (...typed: string[]): string[] =>
      complete(...typed).filter((word) => !word.startsWith("-"));
    assert.deepEqual(words("").sort(), [...SUBCOMMAND_WORDS].sort());
    assert.deepEqual(words("to").sort(), ["token", "top"]);
    assert.deepEqual(words("token", "").sort(), ["add", "list", "remove"]);
    assert.deepEqual(words("completion", "").sort(), ["bash", "fish", "zsh"]);
    assert.deepEqual(words("tube", "").sort(), [shown, "mail", "token"].sort());
    assert.deepEqual(words("tube", "m"), ["mail"]);
    // A tube that is called like a command changes nothing.
    assert.deepEqual(words("move", "token", "m"), ["mail"]);
    assert.deepEqual(complete("clear", "mail", "--dry"), ["--dry-run"]);
    assert.ok(
      !complete("config", "check", "--").some((word) => word.startsWith("--oldest")),
      "that is check's",
    );
    assert.deepEqual(words("health", "--for", "").sort(), ["put", "work"]);
    assert.deepEqual(words("check", "--tube", "ma"), ["mail"]);
  }

  it("works in bash, which expands no name of a tube", (t) => {
    const { complete, wasObeyed } = inShell(t, "bash", tree, BASH);
    expectWords(complete, "\\$\\(touch\\$IFS\\$WITNESS\\)");
    assert.deepEqual(complete("put", "mail", "--pri", ""), [], "files, where no value is known");
    assert.equal(wasObeyed(), false);
  });

  it("works in zsh", (t) => {
    if (!canRun(t, NEEDS.zsh)) return;
    const { complete, wasObeyed } = inShell(t, "zsh", tree, ZSH);
    expectWords(complete, HOSTILE);
    assert.deepEqual(complete("proxy", "--ca", ""), ["FILES"]);
    assert.equal(wasObeyed(), false);
  });

  it("works in fish", (t) => {
    if (!canRun(t, NEEDS.fish)) return;
    const { complete, wasObeyed } = inShell(t, "fish", tree, FISH);
    expectWords(complete, HOSTILE);
    assert.deepEqual(complete("binlog", "inspect", "scr"), ["script"]);
    assert.equal(wasObeyed(), false);
  });
});
