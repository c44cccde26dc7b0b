// Scenarios as data: what each role of connection sends, step by step. The same table as native-bench/scenario.c.
import type { ScenarioName } from "./workload.ts";

export type Action =
  | "list-tube-used"
  | "put"
  | "put-delayed"
  /** Into a random tube. */
  | "use-and-put"
  | "reserve"
  /** reserve-with-timeout 0: TIMED_OUT ends the connection's part. */
  | "reserve-now"
  | "delete"
  | "bury"
  /** One command for the whole batch. */
  | "kick";

/**
 * A connection sends all of a step's actions (each as often as the batch is long) in one write, and goes to the next
 * step when every reply has come. After the last step it goes on with `loopFrom`.
 */
export interface Program {
  readonly steps: readonly (readonly Action[])[];
  readonly loopFrom: number;
}

export interface Scenario {
  readonly producer: Program;
  readonly consumer?: Program;
  /** Consumers come on top of the connections instead of being half of them. */
  readonly separateWatchers: boolean;
  /** Over all roles; turns a rate of commands into operations. */
  readonly commandsPerOperation: number;
  /** `spread`: connection i uses tube i % tubes; `own`: a tube each; `all`: producers use any, consumers watch all. */
  readonly layout: "spread" | "own" | "all";
  /** Whether producers wait when consumers fall behind. */
  readonly limitsBacklog: boolean;
}

// The deletes of one batch leave together with the reserves of the next.
const CONSUMER: Program = { steps: [["reserve"], ["delete", "reserve"]], loopFrom: 1 };

const PLAIN = { separateWatchers: false, layout: "spread", limitsBacklog: false } as const;

function looped(...steps: Action[]): Program {
  return { steps: steps.map((action) => [action]), loopFrom: 0 };
}

export const SCENARIOS: Record<ScenarioName, Scenario> = {
  "list-tube-used": { ...PLAIN, producer: looped("list-tube-used"), commandsPerOperation: 1 },
  put: { ...PLAIN, producer: looped("put"), commandsPerOperation: 1 },
  "put-reserve-delete": { ...PLAIN, producer: looped("put", "reserve", "delete"), commandsPerOperation: 3 },
  "producers-consumers": {
    ...PLAIN,
    producer: looped("put"),
    consumer: CONSUMER,
    commandsPerOperation: 3,
    limitsBacklog: true,
  },
  tubes: {
    producer: looped("use-and-put"),
    consumer: CONSUMER,
    separateWatchers: true,
    commandsPerOperation: 4,
    layout: "all",
    limitsBacklog: true,
  },
  delayed: { ...PLAIN, producer: looped("put-delayed"), consumer: CONSUMER, commandsPerOperation: 3 },
  "buried-kicked": {
    ...PLAIN,
    producer: looped("put", "reserve", "bury", "kick", "reserve", "delete"),
    commandsPerOperation: 6,
    layout: "own",
  },
  drain: {
    ...PLAIN,
    producer: { steps: [["reserve-now"], ["delete", "reserve-now"]], loopFrom: 1 },
    commandsPerOperation: 2,
  },
};
