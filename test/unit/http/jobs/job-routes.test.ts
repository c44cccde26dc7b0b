// Tests that a job over HTTP has all its facts, each in its own field.

import assert from "node:assert/strict";
import { it } from "node:test";
import type { Api } from "../../../../src/http/api/api.ts";
import { Problem } from "../../../../src/http/api/problem.ts";
import { jobView, manageJobRoutes } from "../../../../src/http/jobs/job-routes.ts";
import type { Service } from "../../../../src/http/queue/service.ts";
import { LeaseTable } from "../../../../src/http/state/lease-table.ts";
import type { JobFacts } from "../../../../src/message/control.ts";
import { createTopology, httpPort } from "../../../../src/message/topology.ts";
import { WorkerNames } from "../../../../src/ring/connection-words.ts";
import { eachJobCounter } from "../../../../src/schema/job.ts";

const NOW_MS = Date.UTC(2026, 0, 2, 3, 4, 5);

const topology = createTopology({
  ...{ shards: 1, acceptors: 2, jobBytesMax: 65_535, ringBytes: 4096, http: true },
});
const leases = new LeaseTable(() => 0);
const service = { topology, leases } as Service;

/** No two facts are the same; texts are UTF-8 as Latin-1. */
const FACTS: JobFacts = {
  ...{ id: 11, tube: "mails", state: "ready", pri: 12, age: 13.1234, delay: 14, ttr: 15 },
  ...{ timeLeft: 16.5678, attempts: 22, ...eachJobCounter((_, at) => 100 + at) },
  ...{ origin: "calls", death: 1, sinceSeconds: 25.1236, holder: undefined, file: 26 },
  failures: [
    { age: 23.0006, worker: "k\xc3\xb6ln", reason: "", attempt: 24, cause: "released" },
    { age: 60, worker: "", reason: "caf\xc3\xa9", attempt: 23, cause: "timed-out" },
  ],
  options: {
    ...{ expiresIn: 27.0014, unique: "sch\xc3\xb6n", group: "gr\xc3\xbcn", weight: 28, cost: 29 },
    meta: ["tenant:a:b", "city:k\xc3\xb6ln", "tenant:last"],
  },
  ...{ batch: "import/7", waitsFor: { name: "import/6", isAny: true } },
  ...{ progress: 29, note: "gr\xc3\xbcn", cancelled: "sch\xc3\xb6n" },
  ...{ bytes: 5, body: Buffer.from("hello") },
};

const SIGHT = { isMsgpack: false, seesTexts: true };
const view = (facts: Partial<JobFacts> = {}) => jobView({ ...FACTS, ...facts }, service, SIGHT);

it("a job has each of its facts, rounded to the millisecond", (t) => {
  t.mock.timers.enable({ apis: ["Date"], now: NOW_MS });
  assert.deepEqual(view(), {
    ...{ id: 11, tube: "mails", state: "ready", pri: 12, age: 13.123, delay: 14, ttr: 15, timeLeft: 16.568 },
    ...{ file: 26, attempts: 22, ...eachJobCounter((_, at) => 100 + at) },
    ...{ origin: "calls", death: "attempts", readySince: 25.124, buriedSince: null },
    failures: [
      {
        ...{ attempt: 24, cause: "released", at: new Date(NOW_MS - 23_000.6).toISOString(), age: 23.001 },
        ...{ worker: "köln", reason: null },
      },
      {
        ...{ attempt: 23, cause: "timed-out", at: new Date(NOW_MS - 60_000).toISOString(), age: 60 },
        ...{ worker: null, reason: "café" },
      },
    ],
    ...{
      holder: null,
      worker: null,
      expiresIn: 27.001,
      unique: "schön",
      group: "grün",
      weight: 28,
      cost: 29,
    },
    meta: { tenant: "last", city: "köln" },
    ...{ batch: "import/7", waitsFor: "import/6", waitsForAny: true },
    ...{ progress: 29, note: "grün", cancelled: "schön" },
    ...{ bytes: 5, body: "hello", truncated: false },
  });
});

it("a job without something has null, or nothing, in its place", () => {
  const { file: _, ...facts } = FACTS;
  const shown = jobView(
    {
      ...facts,
      ...{ state: "buried", origin: "", death: 0, failures: [], options: undefined, batch: undefined },
      ...{ waitsFor: undefined, body: undefined },
    },
    service,
    SIGHT,
  );
  const { origin, death, readySince, buriedSince, failures, truncated, ...rest } = shown;
  assert.deepEqual([origin, death, readySince, buriedSince], [null, null, null, 25.124]);
  assert.deepEqual([failures, truncated, "file" in rest, "body" in rest], [[], true, false, false]);
  const { expiresIn, meta, unique, group, weight, batch, waitsFor, waitsForAny } = rest;
  assert.deepEqual([expiresIn, meta, unique, group, weight], [null, {}, null, null, 1]);
  assert.deepEqual([batch, waitsFor, waitsForAny], [null, null, false]);
  assert.equal(view({ death: 2 }).death, "expired");
  assert.equal(view({ waitsFor: { name: "b", isAny: false } }).waitsForAny, false);
  const { readySince: ready, buriedSince: buried } = view({ state: "delayed", sinceSeconds: undefined });
  assert.deepEqual([ready, buried], [null, null]);
});

it("a reserved job names its holder, and the worker by its name, if it has one", () => {
  const holder = { port: 1, slot: 3 };
  const { holder: name, worker } = view({ state: "reserved", holder });
  assert.deepEqual([name, worker], ["1.3", "1.3"]);
  new WorkerNames(topology.workerNames[1]!).set(3, "k\xc3\xb6ln-7");
  assert.deepEqual([view({ holder }).holder, view({ holder }).worker], ["1.3", "köln-7"]);
  const leased = view({ holder: { port: httpPort(topology), slot: 0 } });
  assert.deepEqual([leased.holder, leased.worker], ["lease", "lease"]);
  const lease = { id: FACTS.id, shard: 0, reserves: 1, tube: "mails", ttr: 1, sinceMs: 0, untilMs: 1000 };
  for (const [owner, address, name] of [
    ["mailer-3", "10.0.0.5", "mailer-3"],
    ["", "10.0.0.5", "10.0.0.5"],
    ["", "", "unix"],
  ] as const) {
    leases.give({ ...lease, owner, address });
    assert.equal(view({ holder: { port: httpPort(topology), slot: 0 } }).worker, name);
  }
});

it("a part of a body is text as long as it can be, and bytes otherwise", () => {
  const euro = Buffer.from("a€𝄞");
  const part = (length: number) => view({ body: euro.subarray(0, length), bytes: euro.length });
  for (const [length, body] of [
    [1, "a"],
    [2, "a"],
    [3, "a"],
    [4, "a€"],
    [5, "a€"],
    [6, "a€"],
    [7, "a€"],
    [8, "a€𝄞"],
  ] as const) {
    assert.equal(part(length).body, body, `${length} bytes`);
    assert.equal(part(length).truncated, length < euro.length);
  }
  const bytes = Buffer.of(0xff, 0xfe, 0x41);
  const { body, bodyBase64 } = view({ body: bytes, bytes: 3 });
  assert.deepEqual([body, bodyBase64], [undefined, bytes.toString("base64")]);
  const whole = view({ body: Buffer.of(0x41, 0xe2, 0x82), bytes: 3 });
  assert.equal(whole.bodyBase64, Buffer.of(0x41, 0xe2, 0x82).toString("base64"), "a whole body is not cut");
});

it("a cancellation says that it happened for two replies, and for no others", async () => {
  type Handler = (request: { params: { id: number }; body: undefined }) => Promise<unknown>;
  const handlers = new Map<string, Handler>();
  const add = (path: string, _options: unknown, handler: Handler): unknown => handlers.set(path, handler);
  manageJobRoutes(
    new Proxy({}, { get: () => add }) as Api,
    {
      ...{ ...service, state: { phase: "serving" } },
      wire: { command: async () => ({ line }) },
    } as unknown as Service,
  );
  let line = "";
  const outcomeOf = async (reply: string): Promise<unknown> => {
    line = reply;
    try {
      return await handlers.get("/v1/jobs/:id/cancel")!({ params: { id: 7 }, body: undefined });
    } catch (error) {
      return error instanceof Problem ? error.code : (error as Error).message;
    }
  };
  assert.deepEqual(await outcomeOf("CANCELLED"), { held: false });
  assert.deepEqual(await outcomeOf("CANCELLING"), { held: true });
  assert.equal(await outcomeOf("NOT_FOUND"), "job-not-found");
  assert.equal(await outcomeOf("OUT_OF_MEMORY"), "out-of-memory");
  for (const other of ["INTERNAL_ERROR", "UNKNOWN_COMMAND", "CANCELLED cancelled"])
    assert.equal(await outcomeOf(other), `the reply to cancel-job was ${other}`);
});
