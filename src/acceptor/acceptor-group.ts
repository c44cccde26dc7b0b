// The acceptors of one thread as a single core, so that the loop performs each step for all of
// them.

import type { LoopCore } from "./acceptor-loop.ts";
import type { AcceptorCore } from "./connection/acceptor-core.ts";

/** Returns the acceptor itself if there is only one, otherwise a group of them. */
export function acceptorGroup(cores: readonly AcceptorCore[]): LoopCore {
  return cores.length === 1 ? cores[0]! : new AcceptorGroup(cores);
}

class AcceptorGroup implements LoopCore {
  readonly pendingReplies: LoopCore["pendingReplies"];
  readonly #cores: readonly AcceptorCore[];

  constructor(cores: readonly AcceptorCore[]) {
    this.#cores = cores;
    this.pendingReplies = {
      get expecting() {
        return cores.reduce((sum, { pendingReplies }) => sum + pendingReplies.expecting, 0);
      },
      get asking() {
        return cores.reduce((sum, { pendingReplies }) => sum + pendingReplies.asking, 0);
      },
      giveUp() {
        for (const { pendingReplies } of cores) pendingReplies.giveUp();
      },
    };
  }

  publish(onPublished: (shard: number) => void): void {
    for (const core of this.#cores) core.publish(onPublished);
  }

  takeAnswers(onWriterWaits: (shard: number) => void): number {
    let taken = 0;
    for (const core of this.#cores) taken += core.takeAnswers(onWriterWaits);
    return taken;
  }

  flush(): void {
    for (const core of this.#cores) core.flush();
  }

  wantRoom(): void {
    for (const core of this.#cores) core.wantRoom();
  }

  get hasWork(): boolean {
    return this.#cores.some(({ hasWork }) => hasWork);
  }

  get hasAnswers(): boolean {
    return this.#cores.some(({ hasAnswers }) => hasAnswers);
  }

  get waitsForLog(): boolean {
    return this.#cores.some(({ waitsForLog }) => waitsForLog);
  }

  get hasDurable(): boolean {
    return this.#cores.some(({ hasDurable }) => hasDurable);
  }

  get hasRoomAgain(): boolean {
    return this.#cores.some(({ hasRoomAgain }) => hasRoomAgain);
  }
}
