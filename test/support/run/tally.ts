// Results of a file, counted as the runner hears them.

import { relative } from "node:path";
import type { EventData } from "node:test";
import { inspect, stripVTControlCharacters } from "node:util";

interface Skip {
  readonly name: string;
  readonly why: string;
}

/** Where files are, and what they start with. */
interface Place {
  readonly root: string;
  readonly env: NodeJS.ProcessEnv;
}

/** Lines of a failed test's error: all of it, unless it shows a large body. */
const ERROR_LINES = 200;
/** Frames in Node itself say nothing of the fault. */
const NODE_FRAME = /^\s+at .*\bnode:[\w/]+:\d+/;

export class Tally {
  passed = 0;
  /** Results of tests; those of suites are not counted. */
  heard = 0;
  readonly skipped: Skip[] = [];
  /** Printed at the end, where they are easy to find. */
  readonly failures: string[] = [];
  hasSkippedSuite = false;

  pass({ name, skip, details: { type } }: EventData.TestPass): void {
    if (type !== "suite") this.heard++;
    else if (skip !== undefined) this.hasSkippedSuite = true;
    if (skip !== undefined) this.skipped.push({ name, why: `${skip}` });
    else if (type !== "suite") this.passed++;
  }

  fail(test: EventData.TestFail, { root, env }: Place): void {
    if (test.details.type !== "suite") this.heard++;
    // Its own tests have been reported already.
    const { error } = test.details;
    if (!("failureType" in error) || error.failureType !== "subtestsFailed")
      this.failures.push(failureOf(test, { root, env }));
  }

  add({ passed, heard, skipped, failures, hasSkippedSuite }: Tally): void {
    this.passed += passed;
    this.heard += heard;
    this.skipped.push(...skipped);
    this.failures.push(...failures);
    this.hasSkippedSuite ||= hasSkippedSuite;
  }

  /** A file without any test has lost them, unless it has left them all out. */
  get isEmpty(): boolean {
    return this.heard === 0 && !this.hasSkippedSuite;
  }
}

/** Returns the place of a failed test, its unusual settings, and its error with the diff. */
function failureOf(
  { name, file, line, details: { error } }: EventData.TestFail,
  { root, env }: Place,
): string {
  const { OUR_FLAGS = "" } = env;
  const where = `${relative(root, file ?? root)}:${line ?? 0}`;
  const lines = stripVTControlCharacters(textOf(error.cause ?? error))
    .split("\n")
    .filter((text) => !NODE_FRAME.test(text));
  if (lines.length > ERROR_LINES)
    lines.splice(ERROR_LINES, Infinity, `and ${lines.length - ERROR_LINES} more lines`);
  return [`${where} ${name} ${OUR_FLAGS}`.trimEnd(), ...lines].join("\n    ");
}

/** A test can throw anything, even an object that has no text. */
function textOf(thrown: unknown): string {
  if (thrown instanceof Error) return thrown.stack ?? thrown.message;
  return typeof thrown === "string" ? thrown : inspect(thrown);
}
