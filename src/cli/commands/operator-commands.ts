// List of all commands for operators.

import type { Command } from "commander";
import { backupCommand } from "./backup.ts";
import { batchCommand } from "./batch.ts";
import { changeCommands, manyJobsCommands } from "./change.ts";
import { checkCommand } from "./check.ts";
import { failuresCommand, historyCommand, jobsCommand } from "./jobs.ts";
import { outboxCommand } from "./outbox.ts";
import { httpCommands } from "./over-http.ts";
import { proxyCommand } from "./proxy.ts";
import { putCommand } from "./put.ts";
import { reserveCommand } from "./reserve.ts";
import { scheduleCommand } from "./schedule.ts";
import { settingsCommand } from "./settings.ts";
import { shadowCommand } from "./shadow.ts";
import { showCommands } from "./show.ts";
import { topCommand } from "./top.ts";

export function operatorCommands(): Command[] {
  return [
    topCommand(),
    ...showCommands(),
    putCommand(),
    reserveCommand(),
    ...changeCommands(),
    jobsCommand(),
    failuresCommand(),
    historyCommand(),
    ...manyJobsCommands(),
    settingsCommand(),
    scheduleCommand(),
    batchCommand(),
    checkCommand(),
    ...httpCommands(),
    backupCommand(),
    outboxCommand(),
    proxyCommand(),
    shadowCommand(),
  ];
}
