// Checks that every row of the table of commands occurs in a transcript, in the fuzzers, in the
// simulation, and in the protocol's description.
//
// Only sent commands count: conversations are read, and fuzzer and simulation run for a moment.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { COMMANDS, type Command, commandName } from "../../src/protocol/commands.ts";
import { CommandGrammar } from "../fuzz/command-grammar.ts";
import { COMMANDS as EXPECTED_COMMANDS, meaningOf } from "../fuzz/expected-reply.ts";
import { simulate } from "../simulation/simulation.ts";
import { commandIn, GOOD_ARGUMENTS, lineOf } from "../support/conversations/command-lines.ts";
import { protocolPage } from "../support/conversations/protocol-page.ts";
import { loadTranscripts } from "../support/conversations/transcript.ts";
import { SeededRandom } from "../support/seeded-random.ts";

/** Commands that are not drawn by the grammar, each with the reason. */
const NOT_DRAWN: Readonly<Record<string, string>> = {
  quit: "nothing comes after it; the fuzzers themselves end conversations with it",
};
/** Commands that the simulation does not send, each with the reason. */
const SCHEDULES = "its ticks need the wall clock, which test/simulation/schedules/ plays";
const NOT_SIMULATED: Readonly<Record<string, string>> = {
  origins: "it states the processes that ran; test/client/job.test.ts restarts real ones",
  "set-schedule": SCHEDULES,
  "delete-schedule": SCHEDULES,
  "pause-schedule": SCHEDULES,
  "resume-schedule": SCHEDULES,
  "run-schedule": SCHEDULES,
  "inspect-schedule": SCHEDULES,
  "list-schedules": SCHEDULES,
  "open-batch": "test/simulation/batches plays it",
  "commit-batch": "test/simulation/batches plays it",
  "cancel-batch": "test/simulation/batches plays it",
  "inspect-batch": "test/simulation/batches plays it",
  "list-batches": "it reads what the commands above write",
};

const BODY_BYTES_MAX = 10;
const DRAWN_LINES = 12_000;
const SIMULATED_STEPS = 300;
/** Far more than it takes: rare commands come late. */
const SIMULATED_RUNS_MAX = 40;

/** Coverage of commands, by their names. */
interface Evidence {
  readonly played: ReadonlySet<string>;
  readonly drawn: ReadonlySet<string>;
  readonly expected: ReadonlySet<string>;
  readonly simulated: ReadonlySet<string>;
  readonly sections: ReadonlySet<string>;
}

/** Returns what is missing for the commands of a table, each with a remedy. */
function complaints(commands: readonly Command[], seen: Evidence): string[] {
  return commands.flatMap((command) => {
    const name = commandName(command);
    const found: string[] = [];
    const demand = (isThere: boolean, what: string): void => {
      if (!isThere) found.push(`${name}: ${what}`);
    };
    demand(
      seen.played.has(name),
      `no transcript says it: play it in a file of test/transcripts/${command.extension ? ', with "only: ours"' : ""}`,
    );
    demand(
      seen.drawn.has(name) || name in NOT_DRAWN,
      "the fuzzers do not draw it: give it a weight in test/fuzz/command-grammar.ts, or a reason in NOT_DRAWN here",
    );
    demand(
      seen.expected.has(name),
      "the fuzzers do not know its replies: write them in test/fuzz/expected-reply.ts, by hand from src/protocol/README.md",
    );
    demand(
      seen.simulated.has(name) || name in NOT_SIMULATED,
      "the simulation does not send it: see command-draws.ts, client/command.ts, model/model-commands.ts and " +
        "model/model.ts in test/simulation/; or give it a reason in NOT_SIMULATED here",
    );
    demand(
      seen.sections.has(command.section),
      `src/protocol/README.md has no section ${command.section}: write it, or name another one in the row`,
    );
    return found;
  });
}

function playedCommands(): Set<string> {
  const played = new Set<string>();
  for (const { steps } of loadTranscripts()) {
    const texts = new Map<string, string>();
    for (const step of steps)
      if (step.kind === "send")
        texts.set(step.client, (texts.get(step.client) ?? "") + step.bytes.toString("latin1"));
    for (const text of texts.values()) addCommands(played, text.split("\r\n"));
  }
  return played;
}

function drawnCommands(commands?: readonly Command[]): Set<string> {
  const drawn = new Set<string>();
  const grammar = new CommandGrammar(new SeededRandom(1), 0, commands);
  for (let count = DRAWN_LINES; count > 0; count--) addCommands(drawn, grammar.command().split("\r\n", 1));
  return drawn;
}

/** Returns the commands that the simulation sends. */
async function simulatedCommands(commands: readonly Command[]): Promise<ReadonlySet<string>> {
  let simulated: ReadonlySet<string> = new Set();
  const wanted = new Set(commands.map(commandName));
  for (let seed = 1; seed <= SIMULATED_RUNS_MAX && !wanted.isSubsetOf(simulated); seed++)
    simulated = simulated.union((await simulate({ seed, steps: SIMULATED_STEPS })).sent);
  return simulated;
}

function addCommands(names: Set<string>, lines: readonly string[]): void {
  for (const line of lines) {
    const name = commandIn(line);
    if (name !== undefined) names.add(name);
  }
}

const firstWord = (reply: string): string => reply.split(" ", 1)[0]!;

const EVIDENCE: Evidence = {
  played: playedCommands(),
  drawn: drawnCommands(),
  expected: new Set(EXPECTED_COMMANDS),
  simulated: await simulatedCommands(COMMANDS.filter((command) => !(commandName(command) in NOT_SIMULATED))),
  sections: protocolPage().sections,
};

describe("each command of the table", () => {
  it("is in a transcript, in the fuzzers, in the simulation, and in src/protocol/README.md", () => {
    assert.deepEqual(complaints(COMMANDS, EVIDENCE), []);
  });

  it("is excepted only if it exists and needs it", () => {
    const names = COMMANDS.map(commandName);
    for (const name of [...Object.keys(NOT_DRAWN), ...Object.keys(NOT_SIMULATED)])
      assert.ok(names.includes(name), name);
    for (const name of Object.keys(NOT_DRAWN)) assert.ok(!EVIDENCE.drawn.has(name), name);
    for (const name of Object.keys(NOT_SIMULATED)) assert.ok(!EVIDENCE.simulated.has(name), name);
  });

  it("has the table's replies in the expectation of the fuzzers", () => {
    for (const command of COMMANDS.filter((each) => EVIDENCE.expected.has(commandName(each)))) {
      const words = command.replies.map(firstWord);
      for (const reply of meaningOf(lineOf(command, GOOD_ARGUMENTS), BODY_BYTES_MAX).replies)
        assert.ok(words.includes(firstWord(reply)), `${commandName(command)}: ${reply}`);
    }
  });

  it("is the only kind that the fuzzers expect", () => {
    const names = new Set(COMMANDS.map(commandName));
    assert.deepEqual([...EVIDENCE.expected.difference(names)], []);
  });
});

describe("the walk of the table (canary)", () => {
  const invented: Command = {
    ...COMMANDS.find((command) => commandName(command) === "touch")!,
    word: "tickle ",
    section: "99",
  };

  it("reports everything that a new row lacks, and what to do", () => {
    const found = complaints([...COMMANDS, invented], EVIDENCE).filter((each) => each.startsWith("tickle: "));
    assert.equal(found.length, 5, found.join("\n"));
    for (const path of [
      "test/transcripts/",
      "command-grammar.ts",
      "expected-reply.ts",
      "model.ts",
      "section 99",
    ])
      assert.equal(
        found.filter((each) => each.startsWith("tickle: ") && each.includes(path)).length,
        1,
        path,
      );
  });

  it("finds a new row drawn without another line of code", () => {
    const grammar = new CommandGrammar(new SeededRandom(1), 0, [...COMMANDS, invented]);
    const lines = Array.from({ length: DRAWN_LINES }, () => grammar.command());
    assert.ok(lines.some((line) => /^tickle \S+\r\n$/.test(line)));
  });
});
