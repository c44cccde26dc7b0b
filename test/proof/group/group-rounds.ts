// Rounds of a campaign on a group: clients, a fault, and what the ledger, the histories and a
// stream of JetStream alone say afterwards.

import { eventually } from "../../support/eventually.ts";
import { Namespaces } from "../../support/machine/namespaces.ts";
import { temporaryFolder } from "../../support/machine/temporary-folder.ts";
import { SeededRandom } from "../../support/seeded-random.ts";
import { loadGroup } from "../../support/server/group-load.ts";
import { KillLedger } from "../../support/server/kill-ledger.ts";
import { type Place, ServerGroup, until } from "../../support/server/server-group.ts";
import type { WireClient } from "../../support/server/wire-client.ts";
import { HABITS } from "../histories/command-draws.ts";
import type { Judge } from "../histories/judges.ts";
import type { History } from "../histories/operation.ts";
import { recordParty } from "../histories/record-party.ts";
import { honestAsk } from "../histories/recording-client.ts";
import { WallClocks } from "./clocks.ts";
import { Leads } from "./leads.ts";
import { type LoneLoss, LoneStream } from "./lone-stream.ts";
import { type Field, NEMESES, type NemesisName } from "./nemeses.ts";

export interface RoundReport {
  readonly nemesis: NemesisName;
  what: string;
  /** From the end of the fault until a put was acknowledged. */
  servedMs: number;
  puts: number;
  deletes: number;
  /** Acknowledged jobs that are gone, deleted jobs that are back. */
  lost: number;
  back: number;
  readonly verdicts: Record<"accepted" | "refused" | "undecided", number>;
  /** Accepted histories in which clients saw changes that the next lead did not have. */
  sawUndone: number;
  operations: number;
  unknown: number;
  lone: LoneLoss;
  /** Exit codes of servers, but those of a lost lead and of kills. */
  exits: readonly (number | string)[];
  seconds: number;
  /** Everything that is wrong, in words. */
  readonly finds: string[];
}

const MACHINES = 3;
const LEDGER_CLIENTS = 3;
const TUBES = 3;
const LOAD_MS = 400;
const PAUSE_MS = 50;
/** Operations of a round's histories before its fault. */
const OPERATIONS_BEFORE = [20, 250] as const;
/**
 * A kick of several jobs writes several records, and a failure may fall between them: the model
 * knows no half of a kick. Delays follow wall clocks.
 */
const ONE_BY_ONE = HABITS.filter(({ kicks }) => kicks.every((bound) => bound === 1));
const WITHOUT_DELAYS = ONE_BY_ONE.filter(({ delays }) => !delays);
/** Of a server that has lost the lead, was killed, or ended in order. */
const USUAL_EXITS: readonly (number | string)[] = [75, "SIGKILL", "SIGTERM", 0];

/** What ends with a group, the last first. */
class Ending {
  readonly #ends: (() => unknown)[] = [];

  after(done: () => unknown): void {
    this.#ends.push(done);
  }

  async end(): Promise<void> {
    for (const done of this.#ends.splice(0).reverse()) await done();
  }
}

interface GroupOptions {
  /** Of the servers, besides those of every group. */
  readonly flags: readonly string[];
  /** Network namespaces, one for each machine. */
  readonly hasNetwork: boolean;
  /** Clocks of their own for servers. */
  readonly hasClocks: boolean;
  readonly judge: Judge;
}

/** One group with its clients' ledger, for some rounds. */
export class GroupRounds {
  readonly notAccepted: History[] = [];
  readonly #field: Omit<Field, "random">;
  readonly #lone: LoneStream;
  readonly #ending: Ending;
  readonly #judge: Judge;
  readonly #ledger: KillLedger = new KillLedger();
  /** Jobs that were found to be gone. */
  readonly #gone: Set<number> = new Set();

  private constructor(field: Omit<Field, "random">, lone: LoneStream, ending: Ending, judge: Judge) {
    this.#field = field;
    this.#lone = lone;
    this.#ending = ending;
    this.#judge = judge;
  }

  static async start({ flags, hasNetwork, hasClocks, judge }: GroupOptions): Promise<GroupRounds> {
    const ending = new Ending();
    try {
      const network = hasNetwork ? new Namespaces(ending, MACHINES) : undefined;
      const clocks = hasClocks ? new WallClocks(temporaryFolder(ending, "clocks")) : undefined;
      const machines = Array.from({ length: MACHINES }, (_, index): Place => {
        const host = network?.address(index + 1) ?? `127.0.0.${index + 1}`;
        return { host, wrapper: network?.wrapper(index + 1) ?? [], ownWrapper: clocks?.wrapper(host) ?? [] };
      });
      const all = ["-f", "50", "-s", "2000000", ...flags];
      const group = await ServerGroup.start(ending, all, MACHINES, undefined, machines);
      await group.add(temporaryFolder(ending, "third"), machines[2]);
      await group.caughtUp();
      const lone = await LoneStream.create(group.cluster, "ALONE");
      ending.after(() => lone.close());
      return new GroupRounds({ group, network, clocks, ending }, lone, ending, judge);
    } catch (error) {
      await ending.end();
      throw error;
    }
  }

  async end(): Promise<void> {
    await this.#ending.end();
  }

  /** The last lines of all servers. */
  get said(): string {
    return this.#field.group.servers
      .map(({ address, output }) => `${address}\n${output.slice(-5000)}`)
      .join("\n---\n");
  }

  async play(nemesis: NemesisName, name: string, random: SeededRandom): Promise<RoundReport> {
    const startedAt = performance.now();
    const report = emptyReport(nemesis);
    try {
      await this.#play(report, name, random);
    } catch (error) {
      report.finds.push(error instanceof Error ? error.message : `${error}`);
    }
    report.exits = this.#field.group.servers
      .flatMap(({ exits }) => exits.splice(0))
      .filter((exit) => !USUAL_EXITS.includes(exit));
    report.seconds = (performance.now() - startedAt) / 1000;
    return report;
  }

  async #play(report: RoundReport, name: string, random: SeededRandom): Promise<void> {
    const { group } = this.#field;
    // Clients draw when they come, so the fault has numbers of its own.
    const faults = new SeededRandom(random.bits());
    const leads = new Leads(group);
    const connect = async (): Promise<WireClient> => await leads.connect();
    const putsBefore = this.#ledger.acknowledgedPuts;
    const load = loadGroup(this.#ending, { connect }, this.#ledger, random, LEDGER_CLIENTS);
    let operations = 0;
    const party = recordParty({
      connect: () => until("a client of a history is served", connect),
      ...{ name, seed: random.bits(), tubes: TUBES, ask: honestAsk, pauseMs: PAUSE_MS },
      overUs: (wire) => leads.overUs(wire),
      serversEnd: report.nemesis === "membership",
      habits: report.nemesis === "clock" ? WITHOUT_DELAYS : ONE_BY_ONE,
      onOperation: () => {
        operations++;
      },
    });
    party.catch(() => {});
    this.#lone.start();
    await load.goOn(LOAD_MS);
    const before = faults.between(...OPERATIONS_BEFORE);
    await eventually("there are operations before the fault", () => operations >= before);
    const { what, repair } = await NEMESES[report.nemesis]({ ...this.#field, random: faults });
    report.what = what;
    const healedAt = performance.now();
    (await group.serving()).socket.destroy();
    report.servedMs = performance.now() - healedAt;
    await load.goOn(LOAD_MS);
    await load.end();
    const histories = await party;
    await group.caughtUp();
    report.puts = this.#ledger.acknowledgedPuts - putsBefore;
    await this.#checkLedger(report);
    report.lone = await this.#lone.stop();
    for (const history of histories) await this.#judgeHistory(history, report);
    await repair?.();
    await group.cluster.caughtUp();
  }

  async #checkLedger(report: RoundReport): Promise<void> {
    const client = await this.#field.group.serving();
    // A packet that was lost in a cut is sent again some seconds later, and the end of its client
    // comes behind it.
    await until("the ends of all clients have come", async () => {
      const stats = (await client.ask("stats")).body?.toString() ?? "";
      return stats.includes("\ncurrent-connections: 1\n") ? true : undefined;
    });
    const { jobs } = this.#ledger;
    const ids = [...jobs.keys()];
    report.deletes = ids.filter((id) => jobs.get(id)!.fate === "deleted").length;
    const wrong = await this.#ledger.check(client);
    for (const id of this.#gone)
      if ((await client.ask(`peek ${id}`)).line !== "NOT_FOUND")
        wrong.push(`job ${id} was gone in an earlier round and is back`);
    for (const id of ids) if (!jobs.has(id)) this.#gone.add(id);
    client.socket.destroy();
    report.lost = wrong.filter((what) => what.endsWith("is lost")).length;
    report.back = wrong.filter((what) => what.endsWith("is back")).length;
    report.finds.push(...wrong);
  }

  async #judgeHistory(history: History, report: RoundReport): Promise<void> {
    const { verdict, why, sawUndone } = await this.#judge.judge(history);
    report.verdicts[verdict]++;
    if (verdict === "accepted" && sawUndone) report.sawUndone++;
    report.operations += history.operations.length;
    report.unknown += history.operations.filter(({ result }) => result === "unknown").length;
    if (verdict === "refused") report.finds.push(`${history.name}: REFUSED\n${why}`);
    if (verdict !== "accepted") this.notAccepted.push(history);
  }
}

function emptyReport(nemesis: NemesisName): RoundReport {
  return {
    ...{ nemesis, what: "", servedMs: 0, puts: 0, deletes: 0, lost: 0, back: 0 },
    verdicts: { accepted: 0, refused: 0, undecided: 0 },
    ...{
      sawUndone: 0,
      operations: 0,
      unknown: 0,
      lone: { acknowledged: 0, hidden: 0, lost: 0, lacking: 0 },
      exits: [],
      seconds: 0,
    },
    finds: [],
  };
}
