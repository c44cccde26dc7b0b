// Checks of command-line arguments. They run before anything is sent, and errors name the allowed
// values.

import { InvalidArgumentError } from "commander";
import { optionsText, tubeName } from "../client/command-text.ts";
import { parseDurationMs } from "../config/setting.ts";
import { U32_MAX } from "../protocol/limits.ts";

export { withoutUnits } from "../config/setting.ts";

/** Returns the valid text; throws InvalidArgumentError otherwise. */
export type Check = (text: string) => string;

const ID_MAX = 18_446_744_073_709_551_615n;
const STATES = ["ready", "delayed", "buried", "reserved"];

const refuse = (allowed: string): never => {
  throw new InvalidArgumentError(`Allowed: ${allowed}.`);
};

export const tube: Check = (text) => named(text, "tube");

function named(text: string, what: string): string {
  try {
    return tubeName(text);
  } catch {
    return refuse(
      `a ${what} name: 1 to 200 characters of A-Z a-z 0-9 - + / ; . $ _ ( ), not beginning with -`,
    );
  }
}

/** Names of batches follow the rules of tubes. */
export const batch: Check = (text) => named(text, "batch");

export const tubeOrAll: Check = (text) => (text === "*" ? text : tube(text));

export const id: Check = (text) =>
  /^\d{1,20}$/.test(text) && BigInt(text) <= ID_MAX ? text : refuse("the number of a job");

export const tubeOrId: Check = (text) => (/^\d+$/.test(text) ? id(text) : tube(text));

export const whole =
  (least: number, most: number): Check =>
  (text) =>
    /^\d{1,10}$/.test(text) && Number(text) >= least && Number(text) <= most
      ? text
      : refuse(`a whole number from ${least} to ${most}`);

/**
 * Accepts a time in the form that flags and the configuration file take, such as 30, 0.5, 250ms or
 * 5m. Returns seconds with up to three decimals.
 */
export const durationWithin =
  (least: number, most: number, isWhole = false): Check =>
  (text) => {
    const seconds = (parseDurationMs(text, "s") ?? -1) / 1000;
    const isExact = !isWhole || Number.isInteger(seconds);
    if (isExact && seconds >= least && seconds <= most) return `${seconds}`;
    const unit = isWhole ? "whole seconds" : "seconds";
    const examples = isWhole ? "30, 5m, 2h or 7d" : "30, 0.5, 250ms, 5m or 2h";
    return refuse(`${unit} from ${least} to ${most}, or a time such as ${examples}`);
  };

export const port: Check = whole(1, 65_535);

/** Times that travel as whole seconds. */
export const seconds: Check = durationWithin(0, U32_MAX, true);

const DAY = 86_400;

/** Time limit for one reply. */
export const timeout: Check = durationWithin(0.001, DAY);

/** Seconds to the millisecond, for commands that support it. */
export const duration: Check = durationWithin(0, U32_MAX);

/** Interval between two reports. */
export const interval: Check = durationWithin(0.001, DAY);

export const states: Check = (text) =>
  text.split(",").every((each) => STATES.includes(each))
    ? text
    : refuse(`${STATES.join(", ")}, separated by commas`);

/**
 * Checks text to find in a body, or a group. Its escaped form must fit into an option of the
 * protocol.
 */
export function soughtText(text: string): string {
  try {
    optionsText({ text }, true);
    return text;
  } catch {
    return refuse("1 to 200 bytes; a byte that must be escaped counts as three");
  }
}

/** Returns a parser for an argument that may be repeated. */
export const each =
  (check: Check) =>
  (text: string, before: string[] = []): string[] => {
    before.push(check(text));
    return before;
  };
