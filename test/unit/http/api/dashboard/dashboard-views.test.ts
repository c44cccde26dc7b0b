// Tests of the dashboard's views: the overview asks for totals and tubes at the same time.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { VIEWS } from "../../../../../src/http/api/dashboard/dashboard-views.ts";
import type { Service } from "../../../../../src/http/queue/service.ts";

/** A service without a log, whose shards answer when `answer` is called. */
function silentService(): { service: Service; asked: string[]; answer: () => void } {
  const asked: string[] = [];
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const ask = (what: string) => (): Promise<undefined> => {
    asked.push(what);
    return promise;
  };
  const service: Partial<Record<keyof Service, unknown>> = {
    facts: { version: "1", hostname: "here", startedAtMonotonicMs: 0 },
    state: { phase: "serving", listeners: [] },
    topology: { binlog: undefined },
    words: { isSet: () => false },
    memory: { isFull: false },
    nowMs: () => 0,
    wallMs: () => 0,
    totals: { ask: ask("totals") },
    tubes: { fresh: ask("tubes") },
    control: { shards: 1, askParts: (_shard: number, verb: string) => ask(verb)() },
  };
  return { service: service as Service, asked, answer: () => resolve(undefined) };
}

describe("the overview", () => {
  it("asks for the totals, the tubes and the flows in one round trip", async () => {
    const { service, asked, answer } = silentService();
    const view = VIEWS["overview"]!.make(service, {});
    assert.deepEqual(asked, ["totals", "tubes", "flow-signs"]);
    answer();
    await view;
  });
});
