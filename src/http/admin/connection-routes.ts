// Routes that list the connections of the beanstalkd protocol (what each uses, watches, waits for
// and holds) and close them.

import { type Static, Type } from "typebox";
import type { Answers } from "../../message/control.ts";
import { answers, type Routes, requireServing } from "../api/api.ts";
import { Problem } from "../api/problem.ts";
import { textOf } from "../api/protocol-reports.ts";
import { Connection, Fields } from "../api/schemas.ts";
import type { OpenConnection } from "../queue/connection-client.ts";
import type { Service } from "../queue/service.ts";

const LIMIT = 100;
const LIMIT_MAX = 1000;

const Query = Type.Object(
  {
    state: Type.Optional(
      Type.Union([
        Type.Literal("open"),
        Type.Literal("waiting"),
        Type.Literal("holding"),
        Type.Literal("closed"),
      ]),
    ),
    tube: Type.Optional(Type.String({ description: "Only connections that use or watch this tube." })),
    listener: Type.Optional(Type.String({ description: "Only connections that this listener accepted." })),
    name: Type.Optional(Type.String({ minLength: 1, description: "Start of its name." })),
    address: Type.Optional(
      Type.String({ minLength: 1, description: "Start of its address, with or without the port." }),
    ),
    sort: Type.Optional(
      Type.Union([Type.Literal("age"), Type.Literal("idle"), Type.Literal("held"), Type.Literal("bytes")]),
    ),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMIT_MAX })),
    each: Type.Optional(
      Type.Integer({ minimum: 0, description: "Tubes and jobs to list of each; 20 and 100 by default." }),
    ),
  },
  { additionalProperties: false },
);
const List = Fields({ items: Type.Array(Connection), total: Type.Integer(), matched: Type.Integer() });
const Params = Type.Object({ id: Type.String({ maxLength: 60 }) });

type View = Static<typeof Connection>;
type Asked = Pick<Static<typeof Query>, "tube" | "listener" | "name" | "address">;
type Held = Answers["sessions"][number];

export const connectionRoutes: Routes = (api, service) => {
  api.get(
    "/v1/connections",
    {
      config: { may: "view", live: true },
      schema: {
        summary: "Open connections, or the last 1,000 that were closed",
        querystring: Query,
        response: answers({ 200: List }, 400, 503),
      },
    },
    async (request) => {
      const { each } = request.query;
      const list = await listConnections(service, request.query);
      if (each === undefined) return list;
      const items = list.items.map(({ watches, holds, ...facts }) => ({
        ...facts,
        watches: watches.slice(0, each),
        holds: holds.slice(0, each),
      }));
      return { ...list, items };
    },
  );

  api.get(
    "/v1/connections/:id",
    {
      config: { may: "view" },
      schema: {
        summary: "A connection",
        params: Params,
        response: answers({ 200: Connection }, 404, 503),
      },
    },
    async (request) => {
      requireServing(service);
      const found = (await service.connections.list()).find((each) => idOf(each) === request.params.id);
      if (found === undefined) throw noSuchConnection(request.params.id);
      const held = await heldBy(service, [found]);
      return viewOf(found, held.get(found)!, service, service.nowMs());
    },
  );

  api.delete(
    "/v1/connections/:id",
    {
      config: { may: "admin" },
      schema: {
        summary: "Closes a connection once its pending commands are answered; its jobs become ready again",
        params: Params,
        response: answers({ 202: Fields({ id: Type.String() }) }, 404, 503),
      },
    },
    async (request, reply) => {
      requireServing(service);
      const { id } = request.params;
      const parts = /^(\d{1,4})\.(\d{1,9})\.(\d{1,16})$/.exec(id);
      const isFound =
        parts !== null &&
        (await service.connections.end(Number(parts[1]), Number(parts[2]), Number(parts[3])));
      if (!isFound) throw noSuchConnection(id);
      reply.code(202);
      return { id };
    },
  );
};

async function listConnections(service: Service, asked: Static<typeof Query>): Promise<Static<typeof List>> {
  requireServing(service);
  const { state = "open", sort = "age", limit = LIMIT } = asked;
  if (state === "closed") return await closedOnes(service, asked, limit);
  const all = await service.connections.list();
  const held = await heldBy(service, all);
  const matched = all.filter((each) => {
    if (!isMeant(each, asked, service)) return false;
    if (state === "waiting") return each.waits;
    return state === "open" || held.get(each)!.held > 0;
  });
  const value = {
    age: (each: OpenConnection) => -each.openedAtMs,
    idle: (each: OpenConnection) => -each.answeredAtMs,
    held: (each: OpenConnection) => held.get(each)!.held,
    bytes: (each: OpenConnection) => each.bytesIn + each.bytesOut,
  }[sort];
  matched.sort((a, b) => value(b) - value(a));
  const shown = matched.slice(0, limit);
  const items = shown.map((each) => viewOf(each, held.get(each)!, service, service.nowMs()));
  return { items, total: all.length, matched: matched.length };
}

/** Returns the last closed connections, newest first, whatever order the request asks for. */
async function closedOnes(service: Service, asked: Asked, limit: number): Promise<Static<typeof List>> {
  const all = await service.connections.closed();
  const matched = all.filter((each) => isMeant(each, asked, service));
  const items = matched.slice(0, limit).map((each) => {
    const { reason, closedAtMs } = each;
    const ended = { ...each, waits: false, bytesIn: 0, bytesOut: 0 };
    const view = viewOf(ended, NOTHING, service, closedAtMs);
    return { ...view, closedFor: Math.round(service.nowMs() - closedAtMs) / 1000, reason };
  });
  return { items, total: all.length, matched: matched.length };
}

function isMeant(each: OpenConnection, { tube, listener, name, address }: Asked, service: Service): boolean {
  if (tube !== undefined && each.uses !== tube && !each.watches.includes(tube)) return false;
  if (listener !== undefined && listenerOf(each, service) !== listener) return false;
  if (name !== undefined && !textOf(each.name ?? "").startsWith(name)) return false;
  return address === undefined || each.peer?.startsWith(address) === true;
}

const listenerOf = ({ listener }: OpenConnection, { state }: Service): string | null =>
  listener === undefined ? null : (state.listeners[listener]?.where ?? null);

const NOTHING: Held = { held: 0, jobs: [], waiting: false };

const idOf = ({ acceptor, slot, serial }: OpenConnection): string => `${acceptor}.${slot}.${serial}`;

const noSuchConnection = (id: string): Problem =>
  new Problem(
    "connection-not-found",
    `Connection ${id} is not open, or has moved to another thread: list the connections again.`,
  );

/** Sums up the jobs that each connection holds, over all shards. */
async function heldBy(
  { control }: Service,
  connections: readonly OpenConnection[],
): Promise<Map<OpenConnection, Held>> {
  const sum = new Map(
    connections.map((each): [OpenConnection, Held] => [each, { held: 0, jobs: [], waiting: false }]),
  );
  const byPort = Map.groupBy(connections, ({ acceptor }) => acceptor);
  for (const [port, group] of byPort) {
    for (let from = 0; from < group.length; from += LIMIT_MAX) {
      const some = group.slice(from, from + LIMIT_MAX);
      const shards = await control.askAll("sessions", { port, slots: some.map(({ slot }) => slot) });
      for (const facts of shards) {
        for (const [index, { held, jobs }] of facts.entries()) {
          const before = sum.get(some[index]!)!;
          sum.set(some[index]!, {
            held: before.held + held,
            jobs: [...before.jobs, ...jobs],
            waiting: false,
          });
        }
      }
    }
  }
  return sum;
}

function viewOf(facts: OpenConnection, { held, jobs }: Held, service: Service, nowMs: number): View {
  const { uses, watches, watchCount, isProducer, isWorker, waits, bytesIn, bytesOut } = facts;
  const since = (ms: number): number => Math.max(0, Math.round(nowMs - ms)) / 1000;
  return {
    id: idOf(facts),
    name: facts.name === undefined ? null : textOf(facts.name),
    address: facts.peer ?? null,
    listener: listenerOf(facts, service),
    age: since(facts.openedAtMs),
    idle: since(facts.answeredAtMs),
    closedFor: null,
    reason: null,
    uses,
    watches: [...watches],
    watchCount,
    producer: isProducer,
    worker: isWorker,
    waiting: waits,
    held,
    holds: [...jobs],
    bytesIn,
    bytesOut,
  };
}
