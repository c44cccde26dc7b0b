// Client that asks acceptors about their connections, through the main thread.

import type { AcceptorNews, AcceptorOrder } from "../../acceptor/acceptor.ts";
import type { ClosedConnection, ConnectionFacts } from "../../acceptor/state/connection-facts.ts";
import { Busy } from "../link/control-client.ts";

export type AcceptorQuestion = Extract<
  AcceptorOrder,
  { order: "tell-connections" | "tell-closed" | "end-connection" }
>;
export type AcceptorAnswer = Extract<AcceptorNews, { news: "connections" | "closed" | "connection-ended" }>;

/** Time limit for a busy acceptor, ms. */
const ANSWER_MS_MAX = 5000;

/** Limit for all acceptors together. */
const CLOSED_MAX = 1000;

export interface OpenConnection extends ConnectionFacts {
  readonly acceptor: number;
}

export class ConnectionClient {
  readonly #acceptors: number;
  readonly #ask: (acceptor: number, question: AcceptorQuestion) => void;
  readonly #asked = new Map<number, (answer: AcceptorAnswer) => void>();
  #lastNumber = 0;
  #listing: Promise<OpenConnection[]> | undefined;

  constructor(acceptors: number, ask: (acceptor: number, question: AcceptorQuestion) => void) {
    this.#acceptors = acceptors;
    this.#ask = ask;
  }

  onAnswer(answer: AcceptorAnswer): void {
    this.#asked.get(answer.question)?.(answer);
    this.#asked.delete(answer.question);
  }

  /** Returns all open connections. Concurrent callers share one answer. */
  list(): Promise<OpenConnection[]> {
    this.#listing ??= this.#list().finally(() => {
      this.#listing = undefined;
    });
    return this.#listing;
  }

  async #list(): Promise<OpenConnection[]> {
    const answers = await Promise.all(
      Array.from({ length: this.#acceptors }, (_, acceptor) =>
        this.#question(acceptor, (question) => ({ order: "tell-connections", question })),
      ),
    );
    return answers.flatMap((answer) =>
      answer.news === "connections"
        ? answer.connections.map((facts) => ({ ...facts, acceptor: answer.acceptor }))
        : [],
    );
  }

  /** Returns the closed connections, newest first. */
  async closed(): Promise<(ClosedConnection & OpenConnection)[]> {
    const answers = await Promise.all(
      Array.from({ length: this.#acceptors }, (_, acceptor) =>
        this.#question(acceptor, (question) => ({ order: "tell-closed", question })),
      ),
    );
    return answers
      .flatMap((answer) =>
        answer.news === "closed"
          ? answer.connections.map((facts) => ({ ...facts, acceptor: answer.acceptor }))
          : [],
      )
      .sort((a, b) => b.closedAtMs - a.closedAtMs)
      .slice(0, CLOSED_MAX);
  }

  /** Resolves once this thread has what the acceptors told before the call. */
  async heard(): Promise<void> {
    await this.#list();
  }

  /**
   * Closes a connection once its pending commands are answered. Returns false if it is already
   * gone.
   */
  async end(acceptor: number, slot: number, serial: number): Promise<boolean> {
    if (acceptor >= this.#acceptors) return false;
    const answer = await this.#question(acceptor, (question) => ({
      order: "end-connection",
      question,
      slot,
      serial,
    }));
    return answer.news === "connection-ended" && answer.found;
  }

  #question(acceptor: number, make: (number: number) => AcceptorQuestion): Promise<AcceptorAnswer> {
    const number = ++this.#lastNumber;
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => {
        this.#asked.delete(number);
        reject(new Busy(`acceptor ${acceptor} has not answered`));
      }, ANSWER_MS_MAX);
      this.#asked.set(number, (answer) => {
        clearTimeout(late);
        resolve(answer);
      });
      this.#ask(acceptor, make(number));
    });
  }
}
