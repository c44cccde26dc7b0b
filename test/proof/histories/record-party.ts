// Records the histories of a few tubes that a handful of clients share, until their jobs are gone.

import { setTimeout as sleep } from "node:timers/promises";
import { SeededRandom } from "../../support/seeded-random.ts";
import type { ServerProcess } from "../../support/server/server-process.ts";
import { WireClient } from "../../support/server/wire-client.ts";
import { drawCommand, drawReserve, HABITS, type TubeBook } from "./command-draws.ts";
import { BLANK, type History, type Recorded } from "./operation.ts";
import { type Ask, honestAsk, nowUs, RecordingClient } from "./recording-client.ts";

export interface PartyOptions {
  readonly server: ServerProcess;
  readonly name: string;
  readonly seed: number;
  readonly tubes: number;
  /** What the clients use before their tubes are emptied. */
  readonly ask: Ask;
}

const CLIENTS = 5;
/** Leaves room for the commands that empty the tube: a history has at most 300. */
const OPERATIONS = 230;
const PAUSE_MS_MAX = 8;
const LONG_PAUSE_MS_MAX = 700;
const EMPTYING_MS = 60_000;

interface Tube {
  readonly book: TubeBook;
  readonly operations: Recorded[];
  /** Jobs that clients held when they went, and when. */
  readonly left: { readonly client: number; readonly job: number; readonly callUs: number }[];
}

export async function recordParty(options: PartyOptions): Promise<readonly History[]> {
  const random = new SeededRandom(options.seed);
  const tubes = Array.from({ length: options.tubes }, (_, index): Tube => {
    const tube = `${options.name}-${index}`;
    const book = { tube, ids: [], bodies: 0, alive: 0, habit: random.pick(HABITS)! };
    return { book, operations: [], left: [] };
  });
  const party = new Party(options, tubes);
  await Promise.all(Array.from({ length: CLIENTS }, () => party.play(new SeededRandom(random.bits()))));
  return await Promise.all(tubes.map((tube) => party.empty(tube)));
}

class Party {
  readonly #options: PartyOptions;
  readonly #tubes: readonly Tube[];
  #clients = 0;

  constructor(options: PartyOptions, tubes: readonly Tube[]) {
    this.#options = options;
    this.#tubes = tubes;
  }

  /** One client, which goes and comes back now and then as another. */
  async play(random: SeededRandom): Promise<void> {
    let client: RecordingClient | undefined;
    for (let tube = this.#open(random); tube !== undefined; ) {
      client ??= await this.#connect(tube, this.#options.ask);
      await this.#act(client, tube, random);
      await sleep(random.chance(0.04) ? random.below(LONG_PAUSE_MS_MAX) : random.below(PAUSE_MS_MAX));
      const isOver = tube.operations.length >= OPERATIONS;
      if (isOver || random.chance(0.01)) {
        for (const job of client.held.keys()) tube.left.push({ client: client.number, job, callUs: nowUs() });
        client.wire.close();
        client = undefined;
        tube = this.#open(random);
      } else if (client.held.size === 0 && random.chance(0.1)) {
        const next = this.#open(random) ?? tube;
        await move(client, tube, next);
        tube = next;
      }
    }
    client?.wire.close();
  }

  /** A tube whose history may grow. */
  #open(random: SeededRandom): Tube | undefined {
    return random.pick(this.#tubes.filter(({ operations }) => operations.length < OPERATIONS));
  }

  async #connect({ book }: Tube, ask: Ask): Promise<RecordingClient> {
    const wire = await WireClient.connect(this.#options.server.address);
    for (const line of [`use ${book.tube}`, `watch ${book.tube}`, "ignore default"]) await wire.ask(line);
    return new RecordingClient(++this.#clients, wire, ask);
  }

  async #act(client: RecordingClient, { book, operations }: Tube, random: SeededRandom): Promise<void> {
    const { noted, command } = drawCommand(random, book, client.held);
    const { kind, job, result } = await client.perform(operations, noted, command);
    if (kind === "put") book.ids.push(job);
    if (kind === "delete" && result === "done") book.alive--;
  }

  /** Takes and deletes all jobs, those too that are still to come back from clients that went. */
  async empty(tube: Tube): Promise<History> {
    const { book, operations, left } = tube;
    const client = await this.#connect(tube, honestAsk);
    const deadline = performance.now() + EMPTYING_MS;
    for (;;) {
      await client.perform(operations, { kind: "kick", bound: 1000 }, "kick 1000");
      for (;;) {
        const { noted, command } = drawReserve(0);
        const { result, job } = await client.perform(operations, noted, command);
        if (result !== "reserved") break;
        await client.perform(operations, { kind: "delete", job }, `delete ${job}`);
      }
      const { counts } = await client.perform(operations, { kind: "stats-tube" }, `stats-tube ${book.tube}`);
      if (counts.every((count) => count === 0)) break;
      if (performance.now() > deadline) throw new Error(`${book.tube}: jobs never came back: ${counts}`);
      await sleep(100);
    }
    client.wire.close();
    const returnUs = nowUs();
    for (const gone of left) operations.push({ ...BLANK, kind: "leave", ...gone, returnUs });
    return { name: book.tube, operations };
  }
}

/** The client uses and watches the other tube alone. */
async function move({ wire }: RecordingClient, from: Tube, to: Tube): Promise<void> {
  if (from === to) return;
  for (const line of [`use ${to.book.tube}`, `watch ${to.book.tube}`, `ignore ${from.book.tube}`])
    await wire.ask(line);
}
