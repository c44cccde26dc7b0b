// Witness of calls about sessions: use, watch, pause, and the end of a connection.

import assert from "node:assert/strict";
import type { EngineCalls } from "./engine-calls.ts";

export class SessionWitness {
  readonly #witness: EngineCalls;

  constructor(witness: EngineCalls) {
    this.#witness = witness;
  }

  /** Sessions on their way to another acceptor have no index by which they could be found. */
  #watchMoves(): void {
    const { engine } = this.#witness;
    const detach = engine.detachSession.bind(engine);
    engine.detachSession = (session) => {
      detach(session);
      this.#witness.detached.add(session);
    };
    const adopt = engine.adoptSession.bind(engine);
    engine.adoptSession = (session, index) => {
      this.#witness.detached.delete(session);
      adopt(session, index);
    };
  }

  watchSessions(): void {
    const model = this.#witness.model;
    this.#watchMoves();
    const shard = this.#witness.shard;
    this.#witness.watch("runDue", ([nowMs], _, seen) =>
      this.#witness.follow(seen, () => model.timers.runDue(shard, nowMs)),
    );
    this.#witness.watch("closeSession", ([session, nowMs], _, seen) =>
      this.#witness.follow(seen, () =>
        model.commands.close(this.#witness.session(session), shard, session.endsWithServer, nowMs),
      ),
    );
    this.#witness.watch("halfClose", ([session, nowMs], _, seen) =>
      this.#witness.follow(seen, () =>
        model.commands.halfClose(this.#witness.session(session), shard, nowMs),
      ),
    );
    this.#witness.watch("use", ([session, name], _, seen) =>
      this.#witness.follow(seen, () => model.registry.use(this.#witness.session(session), name)),
    );
    this.#witness.watch("unuse", ([session], _, seen) =>
      this.#witness.follow(seen, () => model.registry.unuse(this.#witness.session(session), shard)),
    );
    this.#witness.watch("watch", ([session, name], _, seen) =>
      this.#witness.follow(seen, () => model.registry.watch(this.#witness.session(session), name)),
    );
    this.#witness.watch("ignore", ([session, name], _, seen) =>
      this.#witness.follow(seen, () => model.registry.ignore(this.#witness.session(session), name)),
    );
    this.#witness.watch("pause", ([name, seconds, nowMs], found, seen) => {
      assert.equal(
        found,
        this.#witness.follow(seen, () => model.commands.pause(name, shard, seconds, nowMs)),
        "outcome of pause-tube",
      );
      this.#witness.sink.paused(name, seconds, found);
    });
  }
}
