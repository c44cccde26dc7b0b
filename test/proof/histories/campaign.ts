// Records histories of one server after the other, and judges them.

import { mkdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SeededRandom } from "../../support/seeded-random.ts";
import type { ServerProcess } from "../../support/server/server-process.ts";
import { WireClient } from "../../support/server/wire-client.ts";
import type { Judgement } from "./check-history.ts";
import { type HistoryServer, movesOf, startHistoryServer } from "./history-servers.ts";
import type { Judge } from "./judges.ts";
import type { History } from "./operation.ts";
import { Liar, type LieName } from "./planted-lies.ts";
import { recordParty } from "./record-party.ts";
import { honestAsk } from "./recording-client.ts";

export interface CampaignOptions {
  readonly seed: number;
  readonly histories: number;
  readonly parties: number;
  readonly judge: Judge;
  readonly lie?: LieName;
}

export interface Tally {
  accepted: number;
  undecided: number;
  refused: number;
  operations: number;
  /** Accepted histories by the slack for late machines that they needed. */
  readonly slack: [number, number, number];
  /** Tubes whose clients were lied to. */
  lies: number;
  /** Connections that moved. */
  moves: number;
  readonly finds: string[];
}

export const emptyTally = (): Tally => ({
  accepted: 0,
  undecided: 0,
  refused: 0,
  operations: 0,
  slack: [0, 0, 0],
  lies: 0,
  moves: 0,
  finds: [],
});

/** Of a party; one alone where a lie must not be spread over several. */
const TUBES = 3;
const SHOWN_FINDS = 5;

/** Starts `target` and plays parties until there are so many histories. */
export async function recordOn(target: HistoryServer, options: CampaignOptions, tally: Tally): Promise<void> {
  const { server, end } = await startHistoryServer(target);
  try {
    const tubes = options.lie === undefined ? TUBES : 1;
    let left = options.histories;
    let party = 0;
    const work = async (): Promise<void> => {
      while (left > 0) {
        const count = Math.min(tubes, left);
        left -= count;
        await playParty(server, { ...options, name: target.name, party: ++party, tubes: count }, tally);
      }
    };
    await Promise.all(Array.from({ length: options.parties }, work));
    tally.moves += movesOf(server);
  } finally {
    await end();
  }
}

interface OneParty extends Pick<CampaignOptions, "seed" | "judge" | "lie"> {
  readonly name: string;
  /** Number of the party. */
  readonly party: number;
  readonly tubes: number;
}

export async function playParty(server: ServerProcess, options: OneParty, tally: Tally): Promise<void> {
  const { party, tubes } = options;
  const seed = (Math.imul(options.seed, 0x9e3779b1) ^ Math.imul(party, 0x85ebca6b)) >>> 0;
  const liar = options.lie === undefined ? undefined : new Liar(options.lie, new SeededRandom(seed));
  const name = `${options.name}-${options.seed}-${party}`;
  const histories = await recordParty({
    connect: () => WireClient.connect(server.address),
    ...{ name, seed, tubes },
    ask: liar?.ask ?? honestAsk,
  }).catch((error: unknown) => {
    // A reply that no server may give, or a server that is gone.
    tally.refused += tubes;
    tally.finds.push(`${name}: ${error instanceof Error ? error.message : error}`);
  });
  if (histories === undefined) return;
  if (liar !== undefined && !liar.hasLied) return;
  for (const history of histories) {
    tally.operations += history.operations.length;
    if (liar !== undefined) tally.lies++;
    const judgement = await options.judge.judge(history);
    tally[judgement.verdict]++;
    if (judgement.verdict === "accepted") tally.slack[judgement.slack]!++;
    else if (liar === undefined) keep(history, judgement, tally);
  }
}

/** Writes the history to a file of its own. */
function keep(history: History, { verdict, why }: Judgement, tally: Tally): void {
  const folder = join(tmpdir(), "runnerbean-proof");
  mkdirSync(folder, { recursive: true });
  const path = join(folder, `${history.name}.json`);
  writeFileSync(path, `${JSON.stringify(history)}\n`);
  if (tally.finds.length < SHOWN_FINDS)
    tally.finds.push(
      `${history.name}: ${verdict.toUpperCase()}\n${why}\nagain: npm run proof:histories -- --check ${path}`,
    );
}
