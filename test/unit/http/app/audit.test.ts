// Tests of which requests are recorded as changes, and of the lines in the log, which are limited.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import Fastify from "fastify";
import type { Api } from "../../../../src/http/api/api.ts";
import { addAudit } from "../../../../src/http/app/audit.ts";
import { AuditLog, type Service } from "../../../../src/http/queue/service.ts";
import type { Task } from "../../../../src/http/state/task-registry.ts";

const LINES_PER_SECOND = 100;

function scene(t: TestContext) {
  const state = { nowMs: 0, status: 200, payload: {} as object };
  const audit = new AuditLog();
  const lines: string[] = [];
  const tasks = new Map<string, Partial<Task>>();
  const counts = { changesNotLogged: 0 };
  const service = { audit, tasks, state: counts, wallMs: () => 1_790_000_000_000, nowMs: () => state.nowMs };
  const api = Fastify() as unknown as Api;
  t.after(() => api.close());
  addAudit(api, service as unknown as Service, (line) => lines.push(line));
  const may = (right: string) => ({ config: { may: right } }) as object;
  const answer = async (_request: unknown, reply: { code: (status: number) => unknown }) => {
    reply.code(state.status);
    return state.payload;
  };
  for (const [method, url, right] of [
    ["POST", "/managed", "manage"],
    ["GET", "/managed", "manage"],
    ["DELETE", "/administered", "admin"],
    ["POST", "/worked", "work"],
  ] as const)
    api.route({ method, url, ...may(right), handler: answer } as never);
  const ask = async (method: "POST" | "GET" | "DELETE", url: string, body?: object): Promise<number> =>
    (await api.inject({ method, url, ...(body === undefined ? {} : { payload: body }) })).statusCode;
  return { state, audit, lines, tasks, ask, counts };
}

test("a change is recorded if it is done, or some of it; a dry run, a read and work are not", async (t) => {
  const { state, audit, lines, ask } = scene(t);
  const recorded = async (status: number, payload: object, body?: object): Promise<unknown[]> => {
    const before = audit.latest.length;
    Object.assign(state, { status, payload });
    assert.equal(await ask("POST", "/managed", body), status);
    const [latest] = audit.latest;
    return audit.latest.length === before ? [] : [latest!.status, latest!.affected];
  };
  for (const [status, payload, body, expected] of [
    [200, {}, undefined, [200, null]],
    [200, { affected: 0 }, undefined, [200, 0]],
    [200, { affected: 3 }, undefined, [200, 3]],
    [200, { deleted: 2 }, undefined, [200, 2]],
    [200, { affected: 3 }, { dryRun: false }, [200, 3]],
    [200, { affected: 3 }, { dryRun: true }, []],
    [399, {}, undefined, [399, null]],
    [400, {}, undefined, []],
    [409, { affected: 0 }, undefined, []],
    [409, { affected: 1 }, undefined, [409, 1]],
    [507, { affected: 7 }, undefined, [507, 7]],
    [507, { affected: 7 }, { dryRun: true }, []],
  ] as const)
    assert.deepEqual(await recorded(status, payload, body), expected, `${status} ${JSON.stringify(payload)}`);
  const { length } = lines;
  assert.equal(length, audit.latest.length);
  Object.assign(state, { status: 200, payload: {} });
  await ask("GET", "/managed");
  await ask("POST", "/worked");
  assert.equal(lines.length, length);
  await ask("DELETE", "/administered");
  assert.equal(lines.length, length + 1);
});

test("a change by a task gets the task's number of jobs, also if the task fails", async (t) => {
  const { state, audit, tasks, ask } = scene(t);
  for (const fails of [false, true]) {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    promise.catch(() => {});
    const task = { affected: 1, done: promise };
    tasks.set("t1", task);
    Object.assign(state, { status: 202, payload: { id: "t1", affected: 1 } });
    await ask("POST", "/managed");
    assert.equal(audit.latest[0]!.affected, null, "it is not known yet");
    task.affected = 5;
    if (fails) reject(new Error("full"));
    else resolve();
    await new Promise(setImmediate);
    assert.equal(audit.latest[0]!.affected, 5);
  }
});

test("a hundred lines a second are logged; the next one tells how many were not", async (t) => {
  const { counts, state, lines, ask } = scene(t);
  const send = async (count: number): Promise<void> => {
    for (let time = 0; time < count; time++) await ask("POST", "/managed");
  };
  await send(LINES_PER_SECOND + 3);
  assert.equal(lines.length, LINES_PER_SECOND);
  state.nowMs = 20;
  await send(3);
  assert.equal(lines.length, LINES_PER_SECOND + 2);
  assert.match(lines.at(-2)!, /; 3 before it were not logged$/);
  assert.doesNotMatch(lines.at(-1)!, /not logged/);
  state.nowMs = 30;
  await send(1);
  assert.match(lines.at(-1)!, /; 1 before it were not logged$/);
  assert.equal(counts.changesNotLogged, 4);
});
