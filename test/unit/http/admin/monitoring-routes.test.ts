// Tests of metrics while a shard doesn't answer: they are the last known ones, and come soon.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { metricsRoutes } from "../../../../src/http/admin/monitoring-routes.ts";
import { createApp } from "../../../../src/http/app/app.ts";
import { RequestMeter } from "../../../../src/http/limits/request-meter.ts";
import { ControlClient } from "../../../../src/http/link/control-client.ts";
import type { Service } from "../../../../src/http/queue/service.ts";
import { MeasuredTubes } from "../../../../src/http/state/time-series.ts";
import { TubeCache } from "../../../../src/http/state/tube-cache.ts";
import { ControlWords } from "../../../../src/ring/shared-words.ts";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";

/** Longer than a table of tubes counts as fresh, and than a request waits for a shard, ms. */
const LONG_MS = 5000;

describe("metrics of tubes", () => {
  it("are the last known ones if a shard doesn't answer", async (t) => {
    const server = new HandDrivenServer(1, undefined, { http: true });
    const client = server.connect(true);
    client.say("put-in-tube jobs 0 0 60 1\r\nx\r\n");
    server.settle();
    const { topology } = server;
    const control = new ControlClient(server.http!, () => {});
    let nowMs = 1000;
    // Each look at the clock takes a while: nothing has to be waited for.
    const clock = (): number => (nowMs += LONG_MS);
    const service: Partial<Service> = {
      ...{ topology, control, nowMs: clock },
      facts: { version: "0", instanceId: "0123456789abcdef" } as Service["facts"],
      state: { phase: "serving" } as Service["state"],
      tubes: new TubeCache(control, clock),
      words: new ControlWords(topology.control),
      measured: new MeasuredTubes({ tubesMax: 100, tubes: [] }),
    };
    const meter = new RequestMeter();
    const api = createApp({
      ...{ service: service as Service, hosts: new Set<string>(), meter },
      routes: [metricsRoutes(meter)],
      onError: (message) => assert.fail(message),
      onChange: () => {},
    });
    t.after(() => api.close());
    await api.ready();
    const scrape = (): Promise<{ statusCode: number; body: string }> =>
      api.inject({ url: "/metrics/tubes?series=tube_puts" });

    const table = service.tubes!.fresh();
    server.settle();
    assert.ok((await table).has("jobs"));

    // From here on the shard takes no turn.
    for (let each = 0; each < 2; each++) {
      const { statusCode, body } = await scrape();
      assert.equal(statusCode, 200);
      assert.match(body, /^runnerbean_tube_puts_total\{tube="jobs"\} 1$/m);
    }
  });
});
