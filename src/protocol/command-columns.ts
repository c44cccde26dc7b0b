// Columns of the table of commands, as arrays by op.

import { AUTH, COMMAND_CLASSES, COMMAND_OPS, COMMANDS, type Command } from "./commands.ts";

export const ROWS: readonly (Command | undefined)[] = Array.from({ length: COMMAND_OPS }, (_, op) =>
  [...COMMANDS, AUTH].find((command) => command.op === op),
);

/** Returns a column as an array by op, so that a look-up is one load. */
function column(value: (row: Command) => number, absent = 0): Uint8Array {
  return Uint8Array.from(ROWS, (row) => (row === undefined ? absent : value(row)));
}

/** A bit that no permission has: an op without a row is refused. */
const NOBODY = 128;

export const ROUTE_OF: Uint8Array = column(({ route }) => route);
export const PERMISSION_OF: Uint8Array = column(({ permission }) => permission, NOBODY);
export const SCOPE_OF: Uint8Array = column(({ scope }) => scope);
const OTHER = COMMAND_CLASSES.indexOf("other");
export const TIMING_OF: Uint8Array = column(({ timing = "other" }) => COMMAND_CLASSES.indexOf(timing), OTHER);
export const PASSES_BEFORE_AUTH: Uint8Array = column(({ beforeAuth = false }) => Number(beforeAuth));
/** The ByHand of each op. */
export const BY_HAND: Uint8Array = column(({ byHand = 0 }) => byHand);
export const DELETES: Uint8Array = column(({ deletes = false }) => Number(deletes));
export const LEAVES_OUT_TEXTS: Uint8Array = column(({ leavesOutTexts = false }) => Number(leavesOutTexts));
export const MOVES_JOBS: Uint8Array = column(({ movesJobs = false }) => Number(movesJobs));
export const WAITS_FOR_TRANSFER: Uint8Array = column(({ waitsForTransfer = false }) =>
  Number(waitsForTransfer),
);

/** Returns the command word as beanstalkd's -VV prints it. */
export function wordOf(op: number): string {
  return ROWS[op]?.word ?? "<unknown>";
}
