// Planted bugs: a party between clients and server that tells one lie to each party, as a server
// with that bug would.

import type { SeededRandom } from "../../support/seeded-random.ts";
import type { Reply, WireClient } from "../../support/server/wire-client.ts";
import { type Ask, honestAsk, ttrOf } from "./recording-client.ts";

interface Held {
  readonly client: WireClient;
  readonly pri: number;
  readonly body: Buffer;
}

/** What the liar has seen. */
interface Book {
  readonly held: Map<string, Held>;
  /** By body. */
  readonly pris: Map<string, number>;
}

/** The reply, or undefined if the lie can't be told now; then nothing was sent. */
type Lie = (client: WireClient, words: readonly string[], command: string, book: Book) => Promise<Told>;
interface Told {
  readonly reply: Reply;
  readonly isLie: boolean;
}

const line = (text: string): Told => ({ reply: { line: text, body: undefined }, isLie: true });
const truth = async (client: WireClient, command: string): Promise<Told> => ({
  reply: await honestAsk(client, command),
  isLie: false,
});
const isLong = (body: Buffer): boolean => ttrOf(body.toString("latin1")) > 2;
const priOf = (reply: Reply, { pris }: Book): number => pris.get(reply.body!.toString("latin1")) ?? 0;
const idOf = (reply: Reply): string => reply.line.split(" ")[1]!;

async function giveBack(client: WireClient, reply: Reply, book: Book): Promise<void> {
  await honestAsk(client, `release ${idOf(reply)} ${priOf(reply, book)} 0\r\n`);
}

const isReserve = (words: readonly string[]): boolean =>
  words[0] === "reserve-with-timeout" && words[1] === "0";

export const LIES = {
  "a job is given twice": async (client, words, command, { held }) => {
    const [id, job] =
      [...held].find(([, { client: holder, body }]) => holder !== client && isLong(body)) ?? [];
    if (!isReserve(words) || job === undefined) return await truth(client, command);
    return { reply: { line: `RESERVED ${id} ${job.body.length}`, body: job.body }, isLie: true };
  },
  "a better job is passed over": async (client, words, command, book) => {
    const told = await truth(client, command);
    if (!isReserve(words) || !told.reply.line.startsWith("RESERVED")) return told;
    const second = await honestAsk(client, command);
    if (!second.line.startsWith("RESERVED")) return told;
    await giveBack(client, told.reply, book);
    return { reply: second, isLie: true };
  },
  "a release is lost": async (client, words, command, { held }) =>
    words[0] === "release" && words[3] === "0" && held.get(words[1]!)?.client === client
      ? line("RELEASED")
      : await truth(client, command),
  "a put is lost": async (client, words, command) => {
    const told = await truth(client, command);
    if (words[0] !== "put" || words[2] !== "0") return told;
    const { line: answer } = await honestAsk(client, `delete ${idOf(told.reply)}\r\n`);
    return { ...told, isLie: answer === "DELETED" };
  },
  "a deleted job comes back": async (client, words, command, { held }) => {
    const job = held.get(words[1]!);
    if (words[0] !== "delete" || job?.client !== client) return await truth(client, command);
    const { line: answer } = await honestAsk(client, `release ${words[1]} ${job.pri} 0\r\n`);
    return answer === "RELEASED" ? line("DELETED") : line("NOT_FOUND");
  },
  "a reservation is lost": async (client, words, command, book) => {
    const told = await truth(client, command);
    const { reply } = told;
    if (!isReserve(words) || !reply.line.startsWith("RESERVED") || !isLong(reply.body!)) return told;
    await giveBack(client, reply, book);
    return { reply, isLie: true };
  },
  "a delay is not kept": async (client, words, command) =>
    words[0] === "put" && words[2] !== "0"
      ? { ...(await truth(client, command.replace(/^put (\d+) \d+/, "put $1 0"))), isLie: true }
      : await truth(client, command),
  "a wait is told that nothing is there": async (client, words, command) =>
    isReserve(words) ? line("TIMED_OUT") : await truth(client, command),
} as const satisfies Readonly<Record<string, Lie>>;

export type LieName = keyof typeof LIES;
/** Enough for a tube to be full of jobs. */
const FIRST_COMMAND_MAX = 150;

export class Liar {
  readonly ask: Ask;
  hasLied = false;
  readonly #book: Book = { held: new Map(), pris: new Map() };

  constructor(name: LieName, random: SeededRandom) {
    let honest = random.between(20, FIRST_COMMAND_MAX);
    this.ask = async (client, command) => {
      const words = command.trimEnd().split(/[ \r\n]+/);
      const lies = !this.hasLied && --honest < 0;
      const told = await (lies ? LIES[name](client, words, command, this.#book) : truth(client, command));
      this.hasLied ||= told.isLie;
      this.#note(client, words, told.reply);
      return told.reply;
    };
  }

  #note(client: WireClient, words: readonly string[], reply: Reply): void {
    const { held, pris } = this.#book;
    const [word, id = ""] = reply.line.split(" ");
    if (words[0] === "put") pris.set(words.slice(5).join(" "), Number(words[1]));
    if (word === "RESERVED") held.set(id, { client, pri: priOf(reply, this.#book), body: reply.body! });
    else if (["delete", "release", "bury"].includes(words[0]!)) held.delete(words[1]!);
  }
}
