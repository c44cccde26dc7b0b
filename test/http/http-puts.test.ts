// Tests of puts over HTTP: bodies, options, batches, and requests that are repeated.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { pack, unpack } from "msgpackr";
import { eventually } from "../support/eventually.ts";
import { type HttpServer, startHttpServer } from "../support/server/http-server.ts";
import { WorkRequests } from "./work-requests.ts";

const MSGPACK = "application/vnd.msgpack";

/** A batch that arrives in several pieces: every byte of a body identifies its job. */
const BATCH_JOBS = 40;
const bodyIn = (batch: number, job: number): Buffer =>
  Buffer.alloc(5000 + job, (batch * BATCH_JOBS + job) % 251);

describe("work over HTTP", () => {
  let server: HttpServer;
  const folder = mkdtempSync(join(tmpdir(), "http-puts-"));

  before(async () => {
    const flags = ["--shards", "3", "--acceptors", "2", "-z", "3000000", "--protocol", "strict"];
    server = await startHttpServer(...flags, "-b", folder, "-f", "0");
  });
  after(async () => {
    await server.process.stop();
    rmSync(folder, { recursive: true });
  });
  const { put, reserve, stateOf } = new WorkRequests(() => server);

  describe("a put", () => {
    it("takes any content as the body, and returns the job's location", async () => {
      const { status, json, headers } = await server.ask("/v1/tubes/raw/jobs?pri=10&ttr=120&delay=0", {
        body: "hello",
        headers: { "content-type": "application/x-www-form-urlencoded" },
      });
      assert.equal(status, 201);
      assert.equal(headers["location"], `/v1/jobs/${json.id}`);
      const job = (await server.ask(`/v1/jobs/${json.id}`)).json;
      assert.deepEqual([job.body, job.pri, job.ttr, job.tube], ["hello", 10, 120, "raw"]);
    });

    it("takes no content as an empty body, and JSON as a request", async () => {
      const empty = (await server.ask("/v1/tubes/raw/jobs", { method: "POST" })).json;
      assert.equal((await server.ask(`/v1/jobs/${empty.id}`)).json.bytes, 0);
      const plain = (
        await server.ask("/v1/tubes/raw/jobs", { body: "{}", headers: { "content-type": "text/plain" } })
      ).json;
      assert.equal((await server.ask(`/v1/jobs/${plain.id}`)).json.body, "{}");
    });

    it("takes a request in JSON and MessagePack: text, bytes, or a value", async () => {
      for (const [job, expected] of [
        [{ body: "ü", delay: 100 }, "ü"],
        [{ bodyBase64: "AAE=" }, "\0\x01"],
        [{ json: { to: ["a", 1] } }, '{"to":["a",1]}'],
      ] as const) {
        const { json } = await server.ask("/v1/tubes/jobs/jobs", { json: job });
        assert.equal((await server.ask(`/v1/jobs/${json.id}`)).json.body, expected);
      }
      const packed = await server.ask("/v1/tubes/jobs/jobs", {
        body: pack({ body: Buffer.from([0xff, 0]) }),
        headers: { "content-type": MSGPACK, accept: MSGPACK },
      });
      const { id } = unpack(packed.bytes) as { id: number };
      assert.deepEqual([...(await server.ask(`/v1/jobs/${id}/body`)).bytes], [0xff, 0]);
    });

    it("takes delays to the millisecond, and no body for commands", async () => {
      const victim = await put("delays", "victim");
      for (const [delay, millis] of [
        [0.1 + 0.2, 300],
        [1e-7, 0],
        [100.00049, 100_000],
      ] as const) {
        const { json, status } = await server.ask("/v1/tubes/delays/jobs", {
          json: { body: `delete ${victim}\r\n`, delay },
        });
        assert.equal(status, 201);
        const job = (await server.ask(`/v1/jobs/${json.id}`)).json;
        assert.equal(job.body, `delete ${victim}\r\n`);
        assert.ok(job.timeLeft <= millis / 1000);
      }
      assert.equal((await server.ask(`/v1/tubes/delays/jobs?delay=1e-9`, { method: "POST" })).status, 201);
      assert.equal(await stateOf(victim), "ready");
    });

    it("parses a request in each content type that means one", async () => {
      for (const type of [
        MSGPACK,
        "application/msgpack",
        "application/x-msgpack",
        "Application/MsgPack; v=5",
      ]) {
        const asked = (value: unknown) =>
          server.ask("/v1/tubes/types/jobs", { body: pack(value), headers: { "content-type": type } });
        // Lines of the protocol, if unchecked.
        const lines = await asked({ body: "x", pri: "0 0 60 0\r\n\r\nput-in-tube types 0" });
        assert.equal(lines.status, 400, type);
        assert.equal((await asked(5)).status, 400, type);
        assert.equal((await asked({ jobs: "x" })).status, 400, type);
        assert.equal((await asked({ jobs: [{ body: "x" }] })).status, 200, type);
      }
      assert.equal((await server.ask("/v1/tubes/types")).json.totals.puts, 4);
      // A number that is not one of JSON's.
      const wide = await server.ask("/v1/tubes/types/jobs", {
        body: Buffer.from("81a46a736f6ed44200", "hex"),
        headers: { "content-type": MSGPACK },
      });
      assert.equal(wide.status, 400);
    });

    it("takes many in order, and a failing one fails alone", async () => {
      const big = "x".repeat(3_000_001);
      const { status, json } = await server.ask("/v1/tubes/many/jobs", {
        json: {
          jobs: [{ body: "a" }, { body: big }, { body: "b", bodyBase64: "AA==" }, { body: "c", pri: 1 }],
        },
      });
      assert.deepEqual([status, json.failed], [200, 2]);
      const [a, tooBig, wrong, c] = json.results;
      assert.deepEqual([tooBig.code, wrong.code], ["job-too-big", "bad-request"]);
      assert.ok(c.id > a.id);
      assert.equal((await server.ask("/v1/tubes/many")).json.jobs.ready, 2);
    });

    it("takes a large body with or without a length, up to the limit of jobs", async () => {
      const body = Buffer.alloc(2_500_000, "0123456789");
      const octets = { "content-type": "application/octet-stream" };
      const { json } = await server.ask("/v1/tubes/large/jobs", { body, headers: octets });
      assert.ok((await server.ask(`/v1/jobs/${json.id}/body`)).bytes.equals(body));
      const chunked = await server.ask("/v1/tubes/large/jobs", {
        body,
        headers: { ...octets, "transfer-encoding": "chunked" },
      });
      assert.ok((await server.ask(`/v1/jobs/${chunked.json.id}/body`)).bytes.equals(body));
      const tooBig = await server.ask("/v1/tubes/large/jobs", {
        body: Buffer.alloc(3_000_001),
        headers: octets,
      });
      assert.deepEqual([tooBig.status, tooBig.json.code], [413, "job-too-big"]);
    });

    it("that is cut off puts nothing", async () => {
      const asked = request({
        ...{ host: "127.0.0.1", port: server.port, path: "/v1/tubes/broken/jobs", method: "POST" },
        headers: { "content-length": "2000000", "content-type": "application/octet-stream" },
      });
      asked.on("error", () => {});
      asked.write(Buffer.alloc(1_500_000), () => asked.destroy());
      await eventually("the connection in memory is gone", async () => {
        const { json } = await server.ask("/v1/tubes/broken?missing=zero");
        return json.totals.puts === 0 && json.users === 0;
      });
      assert.equal((await server.ask("/v1/tubes/broken")).status, 404);
    });

    it("refuses unknown fields with a pointer to them", async () => {
      for (const json of [
        {},
        { body: 1 },
        { body: "a", prio: 1 },
        { body: "a", pri: -1 },
        { jobs: [] },
        { body: "a", ttr: 1.5 },
        [],
      ]) {
        const answer = await server.ask("/v1/tubes/bad/jobs", { json });
        assert.deepEqual([answer.status, answer.json.code], [400, "bad-request"], JSON.stringify(json));
      }
      const broken = await server.ask("/v1/tubes/bad/jobs", {
        body: "{",
        headers: { "content-type": "application/json" },
      });
      assert.equal(broken.json.code, "bad-request");
      const proto = await server.ask("/v1/tubes/bad/jobs", {
        body: '{"__proto__":{"a":1},"body":"a"}',
        headers: { "content-type": "application/json" },
      });
      assert.equal(proto.json.code, "bad-request");
      const msgpack = await server.ask("/v1/tubes/bad/jobs", {
        body: Buffer.from([0xc1]),
        headers: { "content-type": MSGPACK },
      });
      assert.equal(msgpack.json.code, "bad-request");
      assert.equal((await server.ask("/v1/tubes/bad?missing=zero")).json.totals.puts, 0);
    });

    it("keeps json as it was written", async () => {
      const kept = async (id: number): Promise<string> => (await server.ask(`/v1/jobs/${id}/body`)).text;
      const written = [
        "12345678901234567890",
        '{"id":9007199254740993}',
        '{"price": 0.1000000000000000055511151231257827, "big":1e400}',
        '{"neg":-0,"one":1.0,"e":1E5}',
        '{"a":1,"a":2}',
        '{"2":"b","1":"a"}',
        '{"__proto__":{"a":1},"constructor":{"prototype":{}}}',
        '[ "\\u00e9", "é", null,\n\t{} ]',
        '"\\ud800"',
        "null",
      ];
      const headers = { "content-type": "application/json" };
      for (const value of written) {
        const body = `{ "pri":1, "json" : ${value} }`;
        const { status, json } = await server.ask("/v1/tubes/as-written/jobs", { body, headers });
        assert.equal(status, 201, value);
        assert.equal(await kept(json.id), value);
      }
      const jobs = written.map((value, index) => `{"json":${value},"pri":${index}}`);
      const body = `{"jobs":[{"body":"first"},${jobs.join(" , ")},{"bodyBase64":"YQ"}]}`;
      const { json } = await server.ask("/v1/tubes/as-written/jobs", { body, headers });
      assert.equal(json.failed, 0);
      const ids: number[] = json.results.map(({ id }: { id: number }) => id);
      const bodies = await Promise.all(ids.map(kept));
      assert.deepEqual(bodies, ["first", ...written, "a"]);
    });

    it("refuses values that it can't keep unchanged", async () => {
      const json = { "content-type": "application/json" };
      const msgpack = { "content-type": MSGPACK };
      const map = (key: string, value: readonly number[]): Buffer =>
        Buffer.from([0x81, 0xa0 + key.length, ...Buffer.from(key), ...value]);
      for (const [body, headers, why] of [
        [Buffer.from('{"body":"\xff"}', "latin1"), json, /not UTF-8/],
        ['{"body":"\\ud800"}', json, /half of a surrogate pair/],
        ['{"bodyBase64":"A"}', json, /not valid base64/],
        ['{"bodyBase64":"AAA=="}', json, /not valid base64/],
        [map("json", [0xcf, 0, 0x20, 0, 0, 0, 0, 0, 1]), msgpack, /between -2\^53 and 2\^53 - 1/],
        [map("json", [0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0]), msgpack, /NaN is not a finite number/],
        [map("json", [0xc4, 1, 7]), msgpack, /^Bytes can only be the body of a job/],
        [map("json", [0x81, 0xa1, 0x61, 0xc4, 1, 7]), msgpack, /^Bytes can only be the body of a job/],
        [map("body", [0xa1, 0xff]), msgpack, /not valid UTF-8/],
      ] as const) {
        const answer = await server.ask("/v1/tubes/changed/jobs", { body, headers });
        assert.deepEqual([answer.status, answer.json.code], [400, "bad-request"], `${body}`);
        assert.match(answer.json.detail, why);
      }
      assert.equal((await server.ask("/v1/tubes/changed?missing=zero")).json.totals.puts, 0);
    });

    it("repeats a failed request with a key, and refuses other MessagePack bytes", async () => {
      const keyed = { "idempotency-key": "key-2" };
      await server.ask("/v1/server/drain", { method: "PUT" });
      const refused = await server.ask("/v1/tubes/failed/jobs", { json: { body: "a" }, headers: keyed });
      assert.equal(refused.json.code, "draining");
      await server.ask("/v1/server/drain", { method: "DELETE" });
      const done = await server.ask("/v1/tubes/failed/jobs", { json: { body: "a" }, headers: keyed });
      assert.equal(done.status, 201);
      const headers = { "content-type": MSGPACK, "idempotency-key": "key-3" };
      const map = (letter: number): Buffer =>
        Buffer.from([0x81, 0xa4, ...Buffer.from("body"), 0xc4, 1, letter]);
      const first = await server.ask("/v1/tubes/failed/jobs", { body: map(1), headers });
      const again = await server.ask("/v1/tubes/failed/jobs", { body: map(1), headers });
      assert.deepEqual([first.status, again.json], [201, first.json]);
      assert.equal((await server.ask("/v1/tubes/failed/jobs", { body: map(2), headers })).status, 422);
      assert.equal((await server.ask("/v1/tubes/failed")).json.totals.puts, 2);
    });

    it("with an Idempotency-Key happens once", async () => {
      const headers = { "idempotency-key": "key-1" };
      const first = await server.ask("/v1/tubes/once/jobs", { json: { body: "a" }, headers });
      const again = await server.ask("/v1/tubes/once/jobs", { json: { body: "a" }, headers });
      assert.deepEqual([again.status, again.json], [first.status, first.json]);
      assert.equal((await server.ask("/v1/tubes/once")).json.totals.puts, 1);
      const other = await server.ask("/v1/tubes/once/jobs", { json: { body: "b" }, headers });
      assert.deepEqual([other.status, other.json.code], [422, "idempotency-mismatch"]);
    });
  });

  it("keeps bodies of concurrent batches apart in reused memory", async () => {
    const batches = Array.from({ length: 60 }, (_, batch) => batch);
    const putBatch = async (batch: number): Promise<void> => {
      const jobs = Array.from({ length: BATCH_JOBS }, (_, job) => ({ body: bodyIn(batch, job) }));
      const { status } = await server.ask(`/v1/tubes/batch-${batch}/jobs`, {
        method: "POST",
        headers: { "content-type": MSGPACK },
        body: pack({ jobs }),
      });
      assert.equal(status, 200);
    };
    for (let from = 0; from < batches.length; from += 20)
      await Promise.all(batches.slice(from, from + 20).map(putBatch));
    for (const batch of batches) {
      const jobs = await reserve(`batch-${batch}`, { max: BATCH_JOBS });
      const bodies = jobs.map(({ body, bodyBase64 }: { body?: string; bodyBase64?: string }) =>
        body === undefined ? Buffer.from(bodyBase64!, "base64") : Buffer.from(body),
      );
      assert.deepEqual(
        bodies,
        Array.from({ length: BATCH_JOBS }, (_, job) => bodyIn(batch, job)),
      );
    }
  });
});
