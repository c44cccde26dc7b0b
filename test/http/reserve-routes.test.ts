// Tests of work over HTTP: reserves as leases, operations on leases and their expiry. Beside
// protocol clients, on one server.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { eventually } from "../support/eventually.ts";
import { type HttpServer, startHttpServer } from "../support/server/http-server.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { WorkRequests } from "./work-requests.ts";

describe("work over HTTP", () => {
  let server: HttpServer;
  let client: WireClient;
  const folder = mkdtempSync(join(tmpdir(), "http-work-"));

  before(async () => {
    server = await startHttpServer(
      "--shards",
      "3",
      "--acceptors",
      "2",
      "-z",
      "3000000",
      "-b",
      folder,
      "-f",
      "0",
      "--protocol",
      "strict",
    );
    client = await WireClient.connect(server.process.address);
  });
  after(async () => {
    client.socket.destroy();
    await server.process.stop();
    rmSync(folder, { recursive: true });
  });

  const { put, reserve, act, stateOf } = new WorkRequests(() => server);

  it("an operation that needs no content takes a JSON type without any", async () => {
    await put("typed", "x");
    const [{ lease }] = await reserve("typed");
    const headers = { "content-type": "application/json" };
    const { status } = await server.ask(`/v1/leases/${lease}/release`, { method: "POST", headers });
    assert.equal(status, 200);
    const nothing = await server.ask("/v1/tubes/typed/jobs", { method: "POST", headers });
    assert.equal(nothing.status, 400, "a put is of something");
  });

  describe("a lease", () => {
    it("contains the whole job, which is reserved for others", async () => {
      const id = await put("lease", "work");
      const [job] = await reserve("lease");
      assert.deepEqual(
        [job.id, job.tube, job.pri, job.ttr, job.reserves, job.body, job.bytes],
        [id, "lease", 1024, 60, 1, "work", 4],
      );
      assert.match(job.lease, /^[\w-]{27}$/);
      assert.ok(job.timeLeft > 50 && job.timeLeft <= 60);
      const seen = (await server.ask(`/v1/jobs/${id}`)).json;
      assert.deepEqual([seen.state, seen.holder], ["reserved", "lease"]);
      assert.equal((await client.ask(`delete ${id}`)).line, "NOT_FOUND");
      const leases = (await server.ask("/v1/leases")).json;
      assert.ok(leases.items.some((each: { id: number }) => each.id === id));
      assert.deepEqual(await reserve("lease"), []);
      assert.equal((await act(job.lease, "delete")).status, 200);
      assert.equal((await server.ask(`/v1/jobs/${id}`)).status, 404);
    });

    it("deletes, releases, buries and touches; a repetition has no further effect", async () => {
      const id = await put("acts", "a");
      const [first] = await reserve("acts");
      assert.equal((await act(first.lease, "touch")).json.timeLeft, 60);
      assert.equal((await act(first.lease, "release", { pri: 5 })).status, 200);
      assert.deepEqual([await stateOf(id), (await server.ask(`/v1/jobs/${id}`)).json.pri], ["ready", 5]);
      assert.equal((await act(first.lease, "release", { pri: 5 })).status, 200, "the same once more");
      const ended = await act(first.lease, "delete");
      assert.deepEqual([ended.status, ended.json.code], [410, "lease-ended"]);
      const [second] = await reserve("acts");
      assert.notEqual(second.lease, first.lease);
      assert.equal((await act(first.lease, "bury")).status, 410, "the job is another's by now");
      assert.equal(await stateOf(id), "reserved");
      assert.equal((await act(second.lease, "bury", { pri: 7 })).status, 200);
      assert.equal(await stateOf(id), "buried");
      assert.equal((await act(second.lease, "bury", { pri: 7, delay: 1 })).status, 400);
    });

    it("keeps with the job why it was released or buried", async () => {
      const id = await put("reasons", "a");
      const [first] = await reserve("reasons");
      assert.equal((await act(first.lease, "release", { reason: "kein Platz für äöü\n2" })).status, 200);
      const [second] = await reserve("reasons");
      assert.equal((await act(second.lease, "bury", { reason: "x".repeat(1025) })).status, 400);
      const many = { bury: [{ lease: second.lease, reason: "€".repeat(1000) }] };
      assert.equal((await server.ask("/v1/leases", { json: many })).json.failed, 0);
      const { json } = await server.ask(`/v1/jobs/${id}`);
      assert.equal(json.attempts, 2);
      const shown = json.failures.map(({ at: _, age: __, ...failure }: Record<string, unknown>) => failure);
      assert.deepEqual(shown, [
        // As many whole characters as 1,024 bytes have.
        { attempt: 2, cause: "buried", worker: "127.0.0.1", reason: "€".repeat(341) },
        { attempt: 1, cause: "released", worker: "127.0.0.1", reason: "kein Platz für äöü\n2" },
      ]);
      assert.ok(Math.abs(Date.parse(json.failures[0].at) - Date.now()) < 60_000);
      const [listed] = (await server.ask("/v1/tubes/reasons/jobs")).json.items;
      assert.deepEqual(
        listed.failures.map(({ reason }: { reason: string }) => reason),
        ["€".repeat(85)],
      );
    });

    it("ends with a reason in a request for as many leases as there may be", async () => {
      const count = 1000;
      await server.ask("/v1/tubes/many/jobs", { json: { jobs: Array(count).fill({ body: "x" }) } });
      const { json } = await server.ask("/v1/reserve", { json: { tubes: ["many"], max: count } });
      const leases = json.jobs.map(({ lease }: { lease: string }) => lease);
      assert.equal(leases.length, count);
      const reason = "r".repeat(1024);
      const bury = leases.map((lease: string) => ({ lease, reason }));
      const answer = await server.ask("/v1/leases", { json: { bury } });
      assert.deepEqual([answer.status, answer.json.failed], [200, 0]);
      assert.equal((await server.ask("/v1/tubes/many")).json.jobs.buried, count);
      // A page may have fewer jobs than its limit.
      const { items } = (await server.ask("/v1/tubes/many/jobs?state=buried&limit=1000")).json;
      const reasons = items.map(({ failures }: { failures: { reason: string }[] }) => failures[0]!.reason);
      assert.deepEqual(new Set(reasons), new Set([reason.slice(0, 256)]));
    });

    it("that was forged or changed by a bit is refused", async () => {
      await put("forged", "a");
      const [job] = await reserve("forged");
      const bytes = Buffer.from(job.lease, "base64url");
      for (let bit = 0; bit < bytes.length * 8; bit += 7) {
        const forged = Buffer.from(bytes);
        forged[bit >> 3]! ^= 1 << (bit & 7);
        assert.equal((await act(forged.toString("base64url"), "delete")).status, 410, `bit ${bit}`);
      }
      assert.equal((await act("x".repeat(27), "delete")).status, 410);
      assert.equal((await act(job.lease, "delete")).status, 200);
    });

    it("ends with its ttr, and a late answer has no effect", async () => {
      const { id } = (await server.ask("/v1/tubes/late/jobs", { json: { body: "a", ttr: 1 } })).json;
      const [job] = await reserve("late");
      await eventually("its time is over", async () => (await stateOf(id)) === "ready");
      assert.equal((await act(job.lease, "delete")).status, 410);
      const [again] = await reserve("late");
      assert.deepEqual([again.reserves, again.timeouts], [2, 1]);
      assert.equal((await act(job.lease, "touch")).status, 410);
      assert.equal((await act(again.lease, "delete")).status, 200);
    });

    it("is finished with others in one request, each on its own", async () => {
      const jobs = Array.from({ length: 40 }, (_, n) => ({ body: `${n}` }));
      await server.ask("/v1/tubes/batch/jobs", { json: { jobs } });
      const taken = await reserve("batch", { max: 40 });
      assert.deepEqual(
        taken.map(({ body }: { body: string }) => body),
        jobs.map(({ body }) => body),
      );
      const leases: string[] = taken.map(({ lease }: { lease: string }) => lease);
      const { json } = await server.ask("/v1/leases", {
        json: {
          delete: [...leases.slice(0, 20), "nothing"],
          release: [{ lease: leases[20], pri: 3 }],
          bury: [{ lease: leases[21] }],
          touch: leases.slice(22),
        },
      });
      assert.equal(json.failed, 1);
      assert.deepEqual(json.results[20], { lease: "nothing", ok: false, code: "lease-ended" });
      const { jobs: left } = (await server.ask("/v1/tubes/batch")).json;
      assert.deepEqual([left.ready, left.reserved, left.buried], [1, 18, 1]);
    });
  });

  describe("a reserve", () => {
    it("gets the best job of its tubes over all shards", async () => {
      const tubes = ["best-a", "best-b", "best-c", "best-d"];
      for (const [index, tube] of tubes.entries())
        await server.ask(`/v1/tubes/${tube}/jobs`, {
          json: {
            jobs: [
              { body: tube, pri: 10 - index },
              { body: tube, pri: 20 + index },
            ],
          },
        });
      const { jobs } = (await server.ask("/v1/reserve", { json: { tubes, max: 8, wait: 0 } })).json;
      assert.deepEqual(
        jobs.map(({ pri }: { pri: number }) => pri),
        [7, 8, 9, 10, 20, 21, 22, 23],
      );
    });

    it("takes no more bytes than requested", async () => {
      await server.ask("/v1/tubes/bytes/jobs", {
        json: { jobs: Array.from({ length: 10 }, () => ({ body: "x".repeat(1000) })) },
      });
      const jobs = await reserve("bytes", { max: 10, maxBytes: 3500 });
      assert.ok(jobs.length >= 3 && jobs.length <= 4, `${jobs.length}`);
    });

    it("waits for a job, and counts as waiting", async () => {
      const waiting = server.ask("/v1/reserve", { json: { tubes: ["awaited", "awaited-2"], wait: 60 } });
      await eventually(
        "it waits",
        async () => (await server.ask("/v1/tubes/awaited?missing=zero")).json.waiters === 1,
      );
      await client.ask("use awaited");
      client.send("put 0 0 60 1\r\nj\r\n");
      assert.match((await client.readReply()).line, /^INSERTED/);
      assert.equal((await waiting).json.jobs[0].body, "j");
    });

    it("gives its job back at once when its client leaves, during the wait and after", async () => {
      const gone = new AbortController();
      const waiting = server.ask("/v1/reserve", { json: { tubes: ["left"], wait: 60 }, signal: gone.signal });
      await eventually(
        "it waits",
        async () => (await server.ask("/v1/tubes/left?missing=zero")).json.waiters === 1,
      );
      gone.abort();
      await assert.rejects(waiting);
      await eventually(
        "it waits no more",
        async () => (await server.ask("/v1/tubes/left?missing=zero")).json.waiters === 0,
      );
      const id = await put("left", "a");
      assert.equal(await stateOf(id), "ready");
    });

    it("of a job by id takes it in any state but reserved", async () => {
      const { id } = (await server.ask("/v1/tubes/by-id/jobs", { json: { body: "a", delay: 100 } })).json;
      const job = (await server.ask(`/v1/jobs/${id}/reserve`, { method: "POST" })).json;
      assert.equal(job.id, id);
      const again = await server.ask(`/v1/jobs/${id}/reserve`, { method: "POST" });
      assert.deepEqual([again.status, again.json.code], [409, "job-reserved"]);
      assert.equal((await act(job.lease, "delete")).status, 200);
      assert.equal((await server.ask(`/v1/jobs/${id}/reserve`, { method: "POST" })).status, 404);
    });

    it("refuses invalid tube names and numbers out of bounds", async () => {
      for (const json of [
        { tubes: ["-a"] },
        { tubes: [] },
        { max: 0 },
        { max: 1001 },
        { wait: 301 },
        { wait: -1 },
        { tube: "a" },
      ])
        assert.equal((await server.ask("/v1/reserve", { json })).status, 400, JSON.stringify(json));
    });
  });

  it("isn't counted in the connections of stats, but its commands are", async () => {
    const { json } = await server.ask("/v1/stats");
    assert.deepEqual([json["current-connections"], json["current-workers"]], [1, 0]);
    assert.ok(json["cmd-reserve-with-timeout"] > 0);
  });

  it("ends with the server: a wait gets an empty answer, and leased jobs are ready after a restart", async () => {
    const id = await put("restart", "a");
    const [job] = await reserve("restart");
    const waiting = server.ask("/v1/reserve", { json: { tubes: ["nothing-here"], wait: 60 } });
    await eventually(
      "it waits",
      async () => (await server.ask("/v1/tubes/nothing-here?missing=zero")).json.waiters === 1,
    );
    client.socket.destroy();
    assert.equal((await server.process.stop()).code, 0);
    assert.deepEqual((await waiting).json, { jobs: [] });
    server = await startHttpServer("--shards", "3", "--acceptors", "2", "-b", folder);
    assert.equal(await stateOf(id), "ready");
    assert.equal((await act(job.lease, "delete")).status, 410);
  });
});
