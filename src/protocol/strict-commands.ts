// The commands of `--protocol strict`.

import { COMMANDS, type Command } from "./commands.ts";

/** The commands as beanstalkd has them, without extensions and options. */
export const STRICT_COMMANDS: readonly Command[] = COMMANDS.filter(({ extension }) => !extension).map(
  ({ options: _, ...command }) => command,
);
