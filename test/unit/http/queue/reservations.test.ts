// Tests of what reserves over HTTP leave behind: connections that watch tubes, for the next request
// of the same tubes, and not too many.

import assert from "node:assert/strict";
import { it } from "node:test";
import { WireClients } from "../../../../src/http/link/wire-clients.ts";
import { Reservations, type ReservedJob } from "../../../../src/http/queue/reservations.ts";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";

const TUBES = 1000;
const KEPT_TUBES_MAX = 10_000;

it("tubes with new names in each request don't pile up", async () => {
  const server = new HandDrivenServer(1, undefined, { http: true });
  const reservations = new Reservations(new WireClients(server.http!, () => {}));
  const reserve = async (tubes: readonly string[]): Promise<void> => {
    const { signal } = new AbortController();
    const jobs: ReservedJob[] = [];
    const options = { tubes, waitSeconds: 0, max: 1, bytesMax: 1, room: () => 1, signal };
    let isOver = false;
    const over = reservations.reserve({ ...options, onJob: (job) => jobs.push(job) }).finally(() => {
      isOver = true;
    });
    while (!isOver) {
      server.settle();
      await Promise.resolve();
    }
    await over;
    assert.deepEqual(jobs, []);
  };
  for (let request = 0; request < 20; request++)
    await reserve(Array.from({ length: TUBES }, (_, n) => `t-${request}-${n}`));
  server.settle();
  assert.ok(server.http!.open <= KEPT_TUBES_MAX / TUBES, `${server.http!.open} connections`);
  const tubes = server.shards[0]!.engine.tubes.size;
  assert.ok(tubes <= KEPT_TUBES_MAX + 1, `${tubes} tubes`);
  const open = server.http!.open;
  await reserve(Array.from({ length: TUBES }, (_, n) => `t-0-${n}`));
  assert.equal(server.http!.open, open, "a request for the same tubes gets the kept connection");
  reservations.stop();
  server.settle();
});
