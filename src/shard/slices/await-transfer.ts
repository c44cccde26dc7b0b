// A command by id whose job is being transferred to another shard. It waits for the end of the
// transfer and is executed then.

import { assert } from "../../base/assert.ts";
import type { Engine } from "../../engine/engine.ts";
import type { Request } from "../../protocol/request.ts";
import type { SlicedCommand } from "../sessions/sliced-command.ts";

export class AwaitTransfer implements SlicedCommand {
  readonly jobs = 1;
  readonly #engine: Engine;
  readonly #request: Request;
  readonly #execute: (request: Request) => void;

  /** `request` is retained. */
  constructor(engine: Engine, request: Request, execute: (request: Request) => void) {
    assert(request.id > 0, "a job on its way has an id");
    this.#engine = engine;
    this.#request = request;
    this.#execute = execute;
  }

  get awaitedJob(): number | undefined {
    const { id } = this.#request;
    return this.#engine.isMoving(id) ? id : undefined;
  }

  step(): boolean {
    return this.awaitedJob === undefined;
  }

  finish(): void {
    assert(this.awaitedJob === undefined, "a command goes on when the transfer of its job is over");
    this.#execute(this.#request);
  }
}
