// The table of scenarios as C, for native-bench/, which is built without Node.
import { fileURLToPath } from "node:url";
import { type Program, SCENARIOS, type Scenario } from "./programs.ts";

export const nativeTableFile = fileURLToPath(new URL("../../native-bench/scenario-table.h", import.meta.url));

/** Elements of the array `scenarios` in native-bench/scenario.c. */
export function nativeTable(): string {
  const elements = Object.entries(SCENARIOS).map(([name, scenario]) => elementOf(name, scenario));
  return `// The scenarios of bench/load/programs.ts, written by bench/load/write-native-table.ts: change them\n// there.\n${elements.join("")}`;
}

function elementOf(name: string, scenario: Scenario): string {
  const { about, producer, consumer, commandsPerOperation, layout } = scenario;
  const fields = [
    `.name = ${JSON.stringify(name)}`,
    `.about = ${JSON.stringify(about)}`,
    `.producer = ${programOf(producer)}`,
    ...(consumer ? [`.consumer = &(const struct program)${programOf(consumer)}`] : []),
    `.commands_per_operation = ${commandsPerOperation}`,
    `.layout = TUBES_${layout.toUpperCase()}`,
    ...(scenario.separateWatchers ? [".separate_watchers = true"] : []),
    ...(scenario.limitsBacklog ? [".limits_backlog = true"] : []),
  ];
  return `{${fields.join(",\n ")}},\n`;
}

function programOf({ steps, loopFrom }: Program): string {
  const texts = steps.map((actions) => `{${actions.map(nativeAction).join(", ")}}`);
  return `{.steps = {${texts.join(", ")}}, .step_count = ${steps.length}, .loop_from = ${loopFrom}}`;
}

const nativeAction = (action: string): string => `ACTION_${action.toUpperCase().replaceAll("-", "_")}`;
