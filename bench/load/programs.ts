// Scenarios as data: what each role of connection sends, step by step. The table of both
// generators: native-table.ts writes it for the one in C.

export type Action =
  | "list-tube-used"
  | "put"
  | "put-delayed"
  /** Into a random tube. */
  | "use-and-put"
  /** Into the connection's tube, by its name. */
  | "put-in-tube"
  /** The same with a unique key. */
  | "put-unique"
  /** The same with a key that is remembered for an hour, whatever becomes of the job. */
  | "put-remembered"
  | "reserve"
  /** reserve-with-timeout 0: TIMED_OUT closes the connection's part. */
  | "reserve-now"
  | "delete"
  | "bury"
  /** One command for the whole batch. */
  | "kick";

/**
 * A connection sends all of a step's actions (each as often as the batch is long) in one write, and
 * goes to the next step when every reply has come. After the last step it goes on with `loopFrom`.
 */
export interface Program {
  readonly steps: readonly (readonly Action[])[];
  readonly loopFrom: number;
}

export interface Scenario {
  /** For `beanload --help`. */
  readonly about: string;
  readonly producer: Program;
  readonly consumer?: Program;
  /** Consumers come on top of the connections instead of being half of them. */
  readonly separateWatchers: boolean;
  /** Over all roles; turns a rate of commands into operations. */
  readonly commandsPerOperation: number;
  /**
   * `spread`: connection i uses tube i % tubes; `own`: a tube each; `all`: producers use any,
   * consumers watch all.
   */
  readonly layout: "spread" | "own" | "all";
  /** Whether producers wait when consumers fall behind. Jobs that aren't due yet are no backlog. */
  readonly limitsBacklog: boolean;
  /** It has commands that beanstalkd has not. */
  readonly isExtended?: true;
}

// The deletes of one batch leave together with the reserves of the next.
const CONSUMER: Program = { steps: [["reserve"], ["delete", "reserve"]], loopFrom: 1 };

const PLAIN = { separateWatchers: false, layout: "spread", limitsBacklog: false } as const;

function looped(...steps: Action[]): Program {
  return { steps: steps.map((action) => [action]), loopFrom: 0 };
}

const TABLE = {
  "list-tube-used": {
    ...PLAIN,
    about: "the cheapest command: what a round trip costs",
    producer: looped("list-tube-used"),
    commandsPerOperation: 1,
  },
  put: {
    ...PLAIN,
    about: "puts only; the jobs stay on the server",
    producer: looped("put"),
    commandsPerOperation: 1,
  },
  "put-in-tube": {
    ...PLAIN,
    about: "put, with the tube named in each line (no beanstalkd has it)",
    producer: looped("put-in-tube"),
    commandsPerOperation: 1,
    isExtended: true,
  },
  "put-unique": {
    ...PLAIN,
    about: "put-in-tube, with a unique key; a shard has room for a million",
    producer: looped("put-unique"),
    commandsPerOperation: 1,
    isExtended: true,
  },
  "put-remembered": {
    ...PLAIN,
    about: "put-in-tube, with a unique key that is remembered for an hour",
    producer: looped("put-remembered"),
    commandsPerOperation: 1,
    isExtended: true,
  },
  "put-reserve-delete": {
    ...PLAIN,
    about: "each connection: its puts, then as many reserves, then the deletes",
    producer: looped("put", "reserve", "delete"),
    commandsPerOperation: 3,
  },
  "put-unique-reserve-delete": {
    ...PLAIN,
    about: "the same with put-in-tube and a unique key",
    producer: looped("put-unique", "reserve", "delete"),
    commandsPerOperation: 3,
    isExtended: true,
  },
  "producers-consumers": {
    ...PLAIN,
    about: "half of the connections put, the other half reserve and delete",
    producer: looped("put"),
    consumer: CONSUMER,
    commandsPerOperation: 3,
    limitsBacklog: true,
  },
  tubes: {
    about: "--connections put into a random one of --tubes, --watchers reserve from all of them",
    producer: looped("use-and-put"),
    consumer: CONSUMER,
    separateWatchers: true,
    commandsPerOperation: 4,
    layout: "all",
    limitsBacklog: true,
  },
  delayed: {
    ...PLAIN,
    about: "half of the connections put with a delay of 1..--delay s, the other half take what falls due",
    producer: looped("put-delayed"),
    consumer: CONSUMER,
    commandsPerOperation: 3,
  },
  "buried-kicked": {
    ...PLAIN,
    about: "each connection in a tube of its own: put, reserve, bury, kick, reserve, delete",
    producer: looped("put", "reserve", "bury", "kick", "reserve", "delete"),
    commandsPerOperation: 6,
    layout: "own",
  },
  drain: {
    ...PLAIN,
    about: "reserve and delete until the tubes are empty",
    producer: { steps: [["reserve-now"], ["delete", "reserve-now"]], loopFrom: 1 },
    commandsPerOperation: 2,
  },
} as const satisfies Record<string, Scenario>;

export type ScenarioName = keyof typeof TABLE;
export const SCENARIO_NAMES = Object.keys(TABLE) as readonly ScenarioName[];
export const SCENARIOS: Readonly<Record<ScenarioName, Scenario>> = TABLE;
