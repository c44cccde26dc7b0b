// Records the histories of a few tubes that a handful of clients share, until their jobs are gone.

import { setTimeout as sleep } from "node:timers/promises";
import { SeededRandom } from "../../support/seeded-random.ts";
import type { WireClient } from "../../support/server/wire-client.ts";
import { drawCommand, drawReserve, HABITS, type TubeBook, type TubeHabit } from "./command-draws.ts";
import { BLANK, type History, NEVER_US, type Recorded } from "./operation.ts";
import { type Ask, honestAsk, nowUs, RecordingClient } from "./recording-client.ts";

interface PartyOptions {
  readonly connect: () => Promise<WireClient>;
  readonly name: string;
  readonly seed: number;
  readonly tubes: number;
  /** What the clients use before their tubes are emptied. */
  readonly ask: Ask;
  /** Of which each tube gets one. */
  readonly habits?: readonly TubeHabit[];
  /**
   * Connections may break, and what was under way is then of unknown outcome. Returns when it was
   * surely over: when a client was served by another server of the group than that of this
   * connection, later. NEVER_US if that has not happened.
   */
  readonly overUs?: (wire: WireClient) => number;
  /** Servers may stop in order. */
  readonly serversEnd?: boolean;
  /** Longest pause of a client between two commands, as a rule. */
  readonly pauseMs?: number;
  /** Called after each operation. */
  readonly onOperation?: () => void;
}

const CLIENTS = 5;
/** Leaves room for the commands that empty the tube: a history has at most 300. */
const OPERATIONS = 230;
const SECOND_US = 1_000_000;
const PAUSE_MS_MAX = 8;
const LONG_PAUSE_MS_MAX = 700;
const EMPTYING_MS = 60_000;

interface Tube {
  readonly book: TubeBook;
  readonly operations: Recorded[];
  /** Jobs that clients held when they went, and since when that may be. */
  readonly left: { readonly client: number; readonly job: number; readonly callUs: number }[];
}

export async function recordParty(options: PartyOptions): Promise<readonly History[]> {
  const random = new SeededRandom(options.seed);
  const tubes = Array.from({ length: options.tubes }, (_, index): Tube => {
    const tube = `${options.name}-${index}`;
    const book = { tube, ids: [], bodies: 0, alive: 0, habit: random.pick(options.habits ?? HABITS)! };
    return { book, operations: [], left: [] };
  });
  const party = new Party(options, tubes);
  await Promise.all(Array.from({ length: CLIENTS }, () => party.play(new SeededRandom(random.bits()))));
  return await Promise.all(tubes.map((tube) => party.empty(tube)));
}

class Party {
  readonly #options: PartyOptions;
  readonly #tubes: readonly Tube[];
  /** By number of the client, from 1. */
  readonly #wires: WireClient[] = [];

  constructor(options: PartyOptions, tubes: readonly Tube[]) {
    this.#options = options;
    this.#tubes = tubes;
  }

  /** One client, which goes and comes back now and then as another. */
  async play(random: SeededRandom): Promise<void> {
    let client: RecordingClient | undefined;
    for (let tube = this.#open(random); tube !== undefined; ) {
      client ??= await this.#connect(tube, this.#options.ask);
      if (!(await this.#act(client, tube, random))) {
        client = undefined;
        tube = this.#open(random);
        continue;
      }
      await sleep(
        random.chance(0.04)
          ? random.below(LONG_PAUSE_MS_MAX)
          : random.below(this.#options.pauseMs ?? PAUSE_MS_MAX),
      );
      const isOver = tube.operations.length >= OPERATIONS;
      if (isOver || random.chance(0.01)) {
        this.#leave(client, tube);
        client = undefined;
        tube = this.#open(random);
      } else if (client.held.size === 0 && random.chance(0.1)) {
        const next = this.#open(random) ?? tube;
        if (!(await this.#survives(() => move(client!, tube!, next)))) {
          this.#leave(client, tube);
          client = undefined;
        }
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
    for (;;) {
      const wire = await this.#options.connect();
      const isReady = await this.#survives(async () => {
        for (const line of [`use ${book.tube}`, `watch ${book.tube}`, "ignore default"]) await wire.ask(line);
      });
      if (isReady) return new RecordingClient(this.#wires.push(wire), wire, ask);
      wire.close();
    }
  }

  /** Returns whether the connection lived through `work`. */
  async #survives(work: () => Promise<void>): Promise<boolean> {
    try {
      await work();
      return true;
    } catch (error) {
      if (this.#options.overUs === undefined || !isLostConnection(error)) throw error;
      return false;
    }
  }

  /** Returns whether the connection lived through it. */
  async #act(client: RecordingClient, tube: Tube, random: SeededRandom): Promise<boolean> {
    const { book, operations } = tube;
    const { noted, command } = drawCommand(random, book, client.held);
    const lives = await this.#survives(async () => {
      const { kind, job, result } = await client.perform(operations, noted, command);
      if (kind === "put") book.ids.push(job);
      if (kind === "delete" && result === "done") book.alive--;
    });
    this.#options.onOperation?.();
    if (lives) return true;
    if (noted.kind === "put" || noted.kind === "delete") book.alive--;
    this.#leave(client, tube);
    return false;
  }

  /**
   * The client goes, and its reservations end: all at this moment at the earliest or, where the
   * server may have gone before it, since the last answer.
   */
  #leave(client: RecordingClient, { left }: Tube): void {
    const { number, held, answeredCallUs, unanswered } = client;
    const callUs = this.#options.overUs === undefined ? nowUs() : answeredCallUs;
    for (const job of held.keys()) left.push({ client: number, job, callUs });
    if (unanswered?.kind === "reserve") left.push({ client: -number, job: 0, callUs });
    if (unanswered?.kind === "reserve-job") left.push({ client: number, job: unanswered.job ?? 0, callUs });
    client.wire.close();
  }

  /** Takes and deletes all jobs, those too that are still to come back from clients that went. */
  async empty(tube: Tube): Promise<History> {
    const { book, operations, left } = tube;
    const deadline = performance.now() + EMPTYING_MS;
    let client = await this.#connect(tube, honestAsk);
    for (;;) {
      let counts: readonly number[] = [];
      const lives = await this.#survives(async () => {
        await emptyOnce(client, operations);
        ({ counts } = await client.perform(operations, { kind: "stats-tube" }, `stats-tube ${book.tube}`));
      });
      if (lives && counts.every((count) => count === 0)) break;
      if (performance.now() > deadline) throw new Error(`${book.tube}: jobs never came back: ${counts}`);
      await sleep(100);
      if (lives) continue;
      this.#leave(client, tube);
      client = await this.#connect(tube, honestAsk);
    }
    client.wire.close();
    const returnUs = nowUs();
    for (const gone of left)
      operations.push({
        ...BLANK,
        kind: "leave",
        ...gone,
        returnUs: Math.min(returnUs, this.#overUs(gone.client)),
      });
    return {
      name: book.tube,
      operations: operations.map((each) => {
        if (each.result === "unknown") return { ...each, returnUs: this.#overUs(each.client) };
        return this.#options.serversEnd === true && isWaitEnded(each) ? { ...each, timeoutSeconds: 0 } : each;
      }),
    };
  }

  /** When nothing can come of this client any more. */
  #overUs(client: number): number {
    return this.#options.overUs?.(this.#wires[Math.abs(client) - 1]!) ?? NEVER_US;
  }
}

/** A server that stops in order ends waits before their time. */
const isWaitEnded = ({ result, callUs, returnUs, timeoutSeconds }: Recorded): boolean =>
  result === "timed-out" && returnUs < callUs + timeoutSeconds * SECOND_US;

/** Takes and deletes all jobs that can be had now. */
async function emptyOnce(client: RecordingClient, operations: Recorded[]): Promise<void> {
  await client.perform(operations, { kind: "kick", bound: 1000 }, "kick 1000");
  for (;;) {
    const { noted, command } = drawReserve(0);
    const { result, job } = await client.perform(operations, noted, command);
    if (result !== "reserved") break;
    await client.perform(operations, { kind: "delete", job }, `delete ${job}`);
  }
}

/** The connection has ended, or answers nothing more; not an answer that no server may give. */
const isLostConnection = (error: unknown): boolean =>
  error instanceof Error && /^(?:The connection ended|Nothing more within)/.test(error.message);

/** The client uses and watches the other tube alone. */
async function move({ wire }: RecordingClient, from: Tube, to: Tube): Promise<void> {
  if (from === to) return;
  for (const line of [`use ${to.book.tube}`, `watch ${to.book.tube}`, `ignore ${from.book.tube}`])
    await wire.ask(line);
}
