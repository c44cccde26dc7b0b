// Faults of a group on three machines, after the nemeses of Jepsen's report on NATS 2.12.1. Each
// ends with its cause removed: processes run, the network is whole, the clocks are right.

import { setTimeout as sleep } from "node:timers/promises";
import type { Namespaces } from "../../support/machine/namespaces.ts";
import { temporaryFolder } from "../../support/machine/temporary-folder.ts";
import type { SeededRandom } from "../../support/seeded-random.ts";
import type { GroupServer, ServerGroup } from "../../support/server/server-group.ts";
import type { WallClocks } from "./clocks.ts";
import { damage } from "./damage.ts";

export interface Field {
  readonly group: ServerGroup;
  readonly random: SeededRandom;
  readonly network: Namespaces | undefined;
  readonly clocks: WallClocks | undefined;
  /** Ends when the group ends. */
  readonly ending: { after(done: () => void): unknown };
}

/** What was done. */
interface Deed {
  readonly what: string;
  /** What an operator does after it, and after the checks. */
  readonly repair?: () => Promise<void>;
}

/** Machines, and log servers: one on each. */
const MACHINES = 3;
const LOG_SERVERS = [0, 1, 2];
/** Up to beyond the lease and an election. */
const HOLD_MS = [300, 8000] as const;
const DOWN_MS_MAX = 3000;
const JUMPS_SECONDS = [-3600, -30, -2, -0.4, 0.4, 2, 30, 3600];

interface Targets {
  readonly what: string;
  readonly servers: readonly GroupServer[];
  readonly logs: readonly number[];
}

async function drawTargets({ group, random }: Field): Promise<Targets> {
  const primary = await group.primary();
  const standbys = group.servers.filter((server) => server !== primary);
  const leader = await group.leadingLogServer();
  const others = LOG_SERVERS.filter((each) => each !== leader);
  const target = (what: string, servers: readonly GroupServer[], logs: readonly number[]): Targets => ({
    ...{ what, servers, logs },
  });
  return random.pick([
    target("the primary", [primary], []),
    target("the primary and a standby", [primary, random.pick(standbys)!], []),
    target("a standby", [random.pick(standbys)!], []),
    target("the leading log server", [], [leader]),
    target("another log server", [], [random.pick(others)!]),
    target("the primary and the leading log server", [primary], [leader]),
    target("a standby and a log server", [random.pick(standbys)!], [random.pick(others)!]),
    target("two log servers", [], [leader, random.pick(others)!]),
    target("all servers", group.servers, []),
    target("all log servers", [], LOG_SERVERS),
    target("everything", group.servers, LOG_SERVERS),
  ]);
}

async function hold({ random }: Field): Promise<string> {
  const ms = random.between(...HOLD_MS);
  await sleep(ms);
  return `${(ms / 1000).toFixed(1)} s`;
}

async function kill(field: Field): Promise<Deed> {
  const { group, random } = field;
  const all: string[] = [];
  for (let times = random.between(1, 2); times > 0; times--) {
    const { what, servers, logs } = await drawTargets(field);
    for (const server of servers) server.signal("SIGKILL");
    await Promise.all(logs.map((each) => group.cluster.kill(each)));
    await sleep(random.below(DOWN_MS_MAX));
    for (const each of logs) group.cluster.startOne(each);
    all.push(what);
  }
  return { what: all.join(", then ") };
}

async function pause(field: Field): Promise<Deed> {
  const { what, servers, logs } = await drawTargets(field);
  const signal = (name: NodeJS.Signals): void => {
    for (const server of servers) server.signal(name);
    for (const each of logs) field.group.cluster.signal(each, name);
  };
  signal("SIGSTOP");
  const held = await hold(field);
  signal("SIGCONT");
  return { what: `${what} for ${held}` };
}

async function partition(field: Field): Promise<Deed> {
  const { group, random } = field;
  const network = field.network!;
  const primary = (await group.primary()).place.host;
  const led = [1, 2, 3].find((machine) => network.address(machine) === primary)!;
  const log = (await group.leadingLogServer()) + 1;
  const [one, other] = random.pick([
    [led, (led % 3) + 1],
    [led, ((led + 1) % 3) + 1],
    [(led % 3) + 1, ((led + 1) % 3) + 1],
  ] as const);
  const cuts: Readonly<Record<string, () => void>> = {
    "the primary's machine from all": () => network.cut(led),
    "the primary's machine from all but its clients": () => network.isolate(led),
    "the leading log server's machine from all": () => network.cut(log),
    "a machine from all": () => network.cut(random.between(1, MACHINES)),
    "two machines from each other, not from the third": () => network.separate(one, other),
    "all machines from each other": () => {
      for (let machine = 1; machine <= MACHINES; machine++) network.isolate(machine);
    },
  };
  const what = random.pick(Object.keys(cuts))!;
  cuts[what]!();
  const held = await hold(field);
  for (let machine = 1; machine <= MACHINES; machine++) network.heal(machine);
  return { what: `${what} for ${held}` };
}

/** Wall clocks of servers jump, and back; half of the time the primary is killed in between. */
async function clock(field: Field): Promise<Deed> {
  const { group, random } = field;
  const clocks = field.clocks!;
  const primary = await group.primary();
  const [what, chosen] = random.pick([
    ["the primary's", [primary]],
    ["the standbys'", group.servers.filter((each) => each !== primary)],
    ["all", [...group.servers]],
  ] as const)!;
  const seconds = random.pick(JUMPS_SECONDS)!;
  for (const server of chosen) clocks.shift(server, seconds);
  const kills = random.chance(0.5);
  await sleep(random.below(DOWN_MS_MAX));
  if (kills) primary.signal("SIGKILL");
  const held = await hold(field);
  for (const server of chosen) clocks.shift(server, 0);
  const also = kills ? ", the primary is killed" : "";
  return { what: `${what} by ${seconds} s for ${held}${also}` };
}

/** The files of one log server; then often another one leads, or another server reads from it. */
async function corruption(field: Field): Promise<Deed> {
  const { group, random } = field;
  const { cluster } = group;
  const each = random.below(MACHINES);
  const isRunning = random.chance(0.3);
  if (!isRunning) await cluster.kill(each);
  const done = damage(cluster.storeFolder(each), random);
  await cluster.kill(each);
  cluster.startOne(each);
  await sleep(random.below(DOWN_MS_MAX));
  const next = random.pick(["", "the primary is killed", "another log server is killed"]);
  if (next === "the primary is killed") (await group.primary()).signal("SIGKILL");
  if (next === "another log server is killed") {
    const other = (each + random.between(1, 2)) % MACHINES;
    await cluster.kill(other);
    await sleep(random.below(DOWN_MS_MAX));
    cluster.startOne(other);
  }
  const how = isRunning ? "while it runs" : "while it is down";
  return {
    what: [`${done} ${how}`, ...(next === "" ? [] : [next])].join(", "),
    repair: () => group.emptyLogServer(each),
  };
}

/** A server leaves for good, and a new one joins with an empty directory; so may a log server. */
async function membership(field: Field): Promise<Deed> {
  const { group, random, ending } = field;
  const primary = await group.primary();
  const what = random.pick(["the primary", "a standby", "a log server", "the primary and a log server"]);
  if (what.includes("log server")) await group.emptyLogServer(random.below(MACHINES));
  if (what === "a log server") return { what };
  const leaver = what === "a standby" ? group.servers.find((each) => each !== primary)! : primary;
  const signal = random.pick(["SIGKILL", "SIGTERM"]) as NodeJS.Signals;
  await group.remove(leaver, signal);
  await sleep(random.below(DOWN_MS_MAX));
  await group.add(temporaryFolder(ending, "joined"), leaver.place);
  return { what: `${what} (${signal})` };
}

export const NEMESES = { kill, pause, partition, clock, corruption, membership } as const satisfies Readonly<
  Record<string, (field: Field) => Promise<Deed>>
>;
export type NemesisName = keyof typeof NEMESES;
