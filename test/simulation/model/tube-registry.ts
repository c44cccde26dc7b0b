// Tubes of the model: their creation and deletion, their users and watchers, and their settings.

import assert from "node:assert/strict";
import { shardOfTube } from "../../../src/base/bytes.ts";
import type { SettingValues } from "../../../src/schema/setting.ts";
import { isLimited } from "./job-order.ts";
import { ModelBucket } from "./model-bucket.ts";
import { clipFinished } from "./model-finished.ts";
import type { Resolved } from "./model-policies.ts";
import type { ModelQueues } from "./model-queues.ts";
import type { ModelState } from "./model-state.ts";
import type { ModelSession, ModelTube } from "./model-types.ts";
import { ModelTurns } from "./turns/model-turns.ts";

/** Parts of the model that this file uses. */
interface Model extends ModelState {
  readonly queues: ModelQueues;
}

export class TubeRegistry {
  readonly #model: Model;

  constructor(model: Model) {
    this.#model = model;
  }

  tube(name: string): ModelTube {
    const known = this.#model.tubes.get(name);
    if (known !== undefined) return known;
    const bytes = Buffer.from(name, "latin1");
    const shard = shardOfTube(bytes, 0, bytes.length, this.#model.shards);
    const resolved = this.#model.settings[shard]!.resolve(name);
    const tube: ModelTube = {
      name,
      shard,
      resolved,
      counts: { duplicates: 0, rejected: 0, expired: 0, dead: 0, cancelled: 0 },
      groups: undefined,
      bucket: this.bucketOf(name, resolved),
      wasLimited: isLimited(resolved),
      pausedUntilMs: undefined,
      pauseSeconds: 0,
      unpausedSince: 0,
      totalJobs: 0,
      movedIn: 0,
      movedOut: 0,
      deletes: 0,
      reserves: 0,
      timeouts: 0,
      disconnects: 0,
      releases: 0,
      buries: 0,
      kicks: 0,
      pauses: 0,
      users: new Set(),
      watchers: new Set(),
    };
    this.#model.tubes.set(name, tube);
    return tube;
  }

  dropIfUnused(tube: ModelTube): void {
    if (tube.name === "default" || tube.users.size > 0 || tube.watchers.size > 0) return;
    if (this.#model.queues.jobsOf(tube).length > 0 || !this.#model.tubes.delete(tube.name)) return;
    if (tube.bucket !== undefined) this.#model.buckets.set(tube.name, tube.bucket);
  }

  /** Returns the bucket of a new tube: its former one if that has the same settings. */
  bucketOf(name: string, { values }: Resolved): ModelBucket | undefined {
    const before = this.#model.buckets.get(name);
    this.#model.buckets.delete(name);
    if (before?.isSetTo(values) === true) return before;
    return values.rate === "" ? undefined : new ModelBucket(values);
  }

  usedTube(session: ModelSession, shard: number): ModelTube {
    const used = [...this.#model.tubes.values()].filter(
      (tube) => tube.shard === shard && tube.users.has(session),
    );
    assert.equal(used.length, 1, "a session uses one tube of the shard that a put or kick goes to");
    return used[0]!;
  }

  use(session: ModelSession, name: string): void {
    const tube = this.tube(name);
    for (const other of [...this.#model.tubes.values()]) {
      if (other.shard === tube.shard && other !== tube && other.users.delete(session))
        this.dropIfUnused(other);
    }
    tube.users.add(session);
  }

  unuse(session: ModelSession, shard: number): void {
    for (const tube of [...this.#model.tubes.values()]) {
      if (tube.shard === shard && tube.users.delete(session)) this.dropIfUnused(tube);
    }
  }

  watch(session: ModelSession, name: string): void {
    this.tube(name).watchers.add(session);
    session.turns?.watch(name);
  }

  ignore(session: ModelSession, name: string): void {
    const tube = this.#model.tubes.get(name);
    session.turns?.ignore(name);
    if (tube?.watchers.delete(session)) this.dropIfUnused(tube);
  }

  /** Returns the turns of the session's tubes, of which it watches these. */
  turnsOf(session: ModelSession): ModelTurns {
    const watched = [...this.#model.tubes.values()].filter(({ watchers }) => watchers.has(session));
    return (session.turns ??= new ModelTurns(watched.map(({ name }) => name)));
  }

  /** Sets values for a pattern on one shard: they hold for later tubes. */
  set(shard: number, pattern: string, values: Readonly<Partial<SettingValues>>): void {
    const settings = this.#model.settings[shard]!;
    settings.set(pattern, values);
    for (const name of this.#model.finished.keys())
      if (this.tubeShard(name) === shard)
        clipFinished(this.#model, name, settings.resolve(name).values.keepFinished);
  }

  /** The shard of a tube, whether it is there or not. */
  tubeShard(name: string): number {
    const bytes = Buffer.from(name, "latin1");
    return shardOfTube(bytes, 0, bytes.length, this.#model.shards);
  }
}
