// A connection, as the filter of its lines sees it.

import type { EndReason } from "../../message/end-reason.ts";
import type { FilteredConnection } from "../admission/filtered-connection.ts";
import type { RunQueueEntry } from "../state/run-queues.ts";
import type { TubeRef } from "../state/tube-ref.ts";
import { abortBatch } from "./batches.ts";
import type { CommandParts } from "./command-parts.ts";

interface Filtered extends CommandParts, RunQueueEntry {
  endWhenIdle(reason: EndReason): void;
}

export class FilteredClient implements FilteredConnection {
  /** The next line waits for a decision of the filter. */
  isWaiting = false;
  readonly #connection: Filtered;

  constructor(connection: Filtered) {
    this.#connection = connection;
  }

  belongsTo(owner: string | undefined, seesTexts: boolean): void {
    const { client } = this.#connection;
    client.owner = owner;
    client.seesTexts = seesTexts;
  }

  get usedTube(): string {
    return this.#connection.client.used.name;
  }

  get watchedTubes(): readonly TubeRef[] {
    return this.#connection.client.watched.tubes;
  }

  get isQuiet(): boolean {
    const { isIdle, holding } = this.#connection.pipeline;
    return isIdle && holding.empty && !this.isWaiting;
  }

  get isAnswered(): boolean {
    const { isIdle, outbox } = this.#connection.pipeline;
    return isIdle && outbox.gatheredBytes === 0;
  }

  refuse(reply: Uint8Array): boolean {
    abortBatch(this.#connection);
    return this.#connection.pipeline.answer(0, reply);
  }

  refuseBody(bodyBytes: number, reply: Uint8Array): void {
    abortBatch(this.#connection);
    this.#connection.upload.drop(bodyBytes, reply);
  }

  refuseAndEnd(reply: Uint8Array): boolean {
    abortBatch(this.#connection);
    const { pipeline, shutdown } = this.#connection;
    if (!pipeline.isIdle) return false;
    pipeline.append(reply, 0, reply.length);
    return shutdown.end("auth");
  }

  cut(reply: Uint8Array): void {
    this.#connection.shutdown.cut(reply);
  }

  holdOn(): void {
    this.isWaiting = true;
  }

  goOn(): void {
    this.isWaiting = false;
    this.#connection.acceptor.runQueues.proceedLater(this.#connection);
  }

  endWhenIdle(reason: EndReason): void {
    this.#connection.endWhenIdle(reason);
  }
}
