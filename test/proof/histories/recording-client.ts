// A client that notes each command about a tube with the moments of the question and of the answer.

import type { Reply, WireClient } from "../../support/server/wire-client.ts";
import { BLANK, COUNTED, type JobState, NEVER_US, type Recorded, type Result } from "./operation.ts";

/** Sends a command and returns the reply: the place where planted bugs lie. */
export type Ask = (client: WireClient, command: string) => Promise<Reply>;

export const honestAsk: Ask = async (client, command) => {
  client.send(command);
  return await client.readReply();
};

const RESULTS: Readonly<Record<string, Result>> = {
  INSERTED: "inserted",
  RESERVED: "reserved",
  TIMED_OUT: "timed-out",
  DEADLINE_SOON: "deadline-soon",
  DELETED: "done",
  RELEASED: "done",
  BURIED: "done",
  TOUCHED: "done",
  KICKED: "kicked",
  FOUND: "found",
  OK: "counted",
  NOT_FOUND: "not-found",
};

export const nowUs = (): number => Math.round(performance.now() * 1000);
/** A body tells its job's ttr: another client may read it before its put is answered. */
export const ttrOf = (body: string): number => Number(body.split(" ")[1]);

export type Noted = Partial<Recorded> & Pick<Recorded, "kind">;

export class RecordingClient {
  readonly number: number;
  readonly wire: WireClient;
  /** Jobs that it holds, unless their ttr is over, with their ttr. */
  readonly held: Map<number, number> = new Map();
  /** When it sent the last command that was answered. */
  answeredCallUs: number = nowUs();
  /** The command whose answer was lost with the connection. */
  unanswered: Noted | undefined;
  readonly #ask: Ask;

  constructor(number: number, wire: WireClient, ask: Ask) {
    this.number = number;
    this.wire = wire;
    this.#ask = ask;
  }

  /** Sends `command` and notes the answer in `history`. */
  async perform(history: Recorded[], noted: Noted, command: string): Promise<Recorded> {
    const callUs = nowUs();
    const { line, body } = await this.#ask(this.wire, `${command}\r\n`).catch((error: unknown) => {
      this.unanswered = noted;
      // A job that it may have reserved gets a holder of its own: its end can be told apart.
      const client = noted.kind === "reserve" ? -this.number : this.number;
      history.push({ ...BLANK, ...noted, client, callUs, returnUs: NEVER_US, result: "unknown" });
      throw error;
    });
    const returnUs = nowUs();
    const [word = "", first = "0"] = line.split(" ");
    const result = RESULTS[word];
    if (result === undefined) throw new Error(`${JSON.stringify(command)} was answered ${line}`);
    const recorded: Recorded = {
      ...BLANK,
      ...noted,
      ...answered(word, Number(first), body?.toString("latin1") ?? "", noted),
      client: this.number,
      callUs,
      returnUs,
      result,
    };
    history.push(recorded);
    this.answeredCallUs = callUs;
    this.#noteHeld(recorded);
    return recorded;
  }

  #noteHeld({ kind, result, job, ttrSeconds }: Recorded): void {
    if (result === "reserved") this.held.set(job, ttrSeconds);
    else if (kind === "delete" || kind === "release" || kind === "bury") this.held.delete(job);
  }
}

/** What the reply says besides its word. */
function answered(word: string, first: number, body: string, { kind }: Noted): Partial<Recorded> {
  switch (word) {
    case "RESERVED":
      return { job: first, body, ttrSeconds: ttrOf(body) };
    case "FOUND":
      return { job: first, body };
    case "INSERTED":
      return { job: first };
    case "KICKED":
      return { counts: [first || (kind === "kick-job" ? 1 : 0)] };
    case "OK":
      return kind === "stats-tube"
        ? { counts: COUNTED.map((state) => Number(field(body, `current-jobs-${state}`))) }
        : { state: field(body, "state") as JobState, pri: Number(field(body, "pri")) };
    default:
      return {};
  }
}

function field(yaml: string, name: string): string {
  const [, value] = new RegExp(`^${name}: (.*)$`, "m").exec(yaml) ?? [];
  if (value === undefined) throw new Error(`the reply has no ${name}: ${JSON.stringify(yaml)}`);
  return value;
}
