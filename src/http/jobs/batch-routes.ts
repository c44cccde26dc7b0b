// Routes of batches: jobs that belong together, and jobs that wait until they have ended.

import { type Static, Type } from "typebox";
import { isTubeName } from "../../protocol/tube-name.ts";
import { answers, type Routes, requireServing } from "../api/api.ts";
import { decodeCursor, encodeCursor, toMilliseconds } from "../api/parameters.ts";
import { Problem } from "../api/problem.ts";
import { filteredList, nameMatches, type Rows, reportFields } from "../api/protocol-reports.ts";
import { type batchFields, Fields, ListedBatch as Listed, Batch as One } from "../api/schemas.ts";
import type { Service } from "../queue/service.ts";
import { refused } from "./put-routes.ts";

const LIMIT = 100;
const LIMIT_MAX = 1000;
const NAME_LENGTH_MAX = 200;
const SECONDS_MAX = 2 ** 32 - 1;
const NUMBERS = ["members", "open", "done", "failed", "buried", "waiting", "keep", "age"] as const;

const List = Fields({ items: Type.Array(Listed), cursor: Type.Union([Type.String(), Type.Null()]) });

const NewBatch = Fields({
  name: Type.String(),
  keep: Type.Optional(
    Type.Number({
      minimum: 0,
      maximum: SECONDS_MAX,
      description: "Seconds for which the server remembers it once it is complete; 86,400 by default.",
    }),
  ),
});
const BatchParams = Type.Object({
  batch: Type.String({ description: "A batch, or - for the one in ?name=." }),
});
const BatchQuery = Type.Object(
  { name: Type.Optional(Type.String({ description: "The name if the path has -." })) },
  { additionalProperties: false },
);
const ListQuery = Type.Object(
  {
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMIT_MAX })),
    cursor: Type.Optional(Type.String({ maxLength: 1000 })),
    order: Type.Optional(
      Type.Enum(["oldest", "newest"], { description: "Which batches come first; oldest by default." }),
    ),
    match: Type.Optional(
      Type.String({
        maxLength: NAME_LENGTH_MAX,
        description: "A text in the name, or a pattern such as import-*.",
      }),
    ),
    state: Type.Optional(
      Type.Enum(["open", "committed", "cancelled", "complete", "unfinished"], {
        description: "unfinished: not complete.",
      }),
    ),
    outcome: Type.Optional(Type.Enum(["success", "failure", "cancelled"])),
    counts: Type.Optional(
      Type.Boolean({ description: `Lists each batch in full; limit is then at most ${LIMIT}.` }),
    ),
  },
  { additionalProperties: false },
);
const shared = { params: BatchParams, querystring: BatchQuery };

/** The number from which the first page of a list starts. */
const FIRST = { oldest: 0, newest: Number.MAX_SAFE_INTEGER } as const;

/** As for inspect-batch and list-batches: clients that fill a batch may see its progress. */
const SEE = ["view", "put"] as const;

export const batchRoutes: Routes = (api, service) => {
  addListAndShow(api, service);
  addChanges(api, service);
};

const addListAndShow: Routes = (api, service) => {
  api.get(
    "/v1/batches",
    {
      config: { may: SEE },
      schema: {
        summary: "Batches, in the order in which they were opened, or the newest first",
        querystring: ListQuery,
        response: answers({ 200: List }, 400, 503),
      },
    },
    async ({ query }) => {
      const { limit = LIMIT, cursor, order = "oldest", counts = false } = query;
      requireServing(service);
      if (counts && limit > LIMIT)
        throw new Problem("bad-request", `With counts, limit is at most ${LIMIT}, not ${limit}.`);
      const [from] = cursor === undefined ? [FIRST[order]] : (decodeCursor(cursor, ["number"]) as [number]);
      const read = async (place = from, rows: number): Promise<Rows<Item, number>> => {
        const where = order === "oldest" ? `after=${place}` : `before=${place}`;
        const { line, body } = await service.wire.command(`list-batches ${where} limit=${rows}`);
        if (body === undefined) throw refused(line, service);
        const [first = "", , ...lines] = body.toString("latin1").trimEnd().split("\n").slice(1);
        return { items: lines.map(itemOf), next: Number(first.slice("next: ".length)) || undefined };
      };
      const { items, next } = await filteredList(read, from, limit, filterOf(query), ({ number }) => number);
      return {
        items: counts ? await withCounts(service, items) : [...items],
        cursor: next === undefined ? null : encodeCursor([next]),
      };
    },
  );
  api.get(
    "/v1/batches/:batch",
    {
      config: { may: SEE },
      schema: {
        summary: "A batch: how many members have ended, and how",
        ...shared,
        response: answers({ 200: One }, 400, 404, 503),
      },
    },
    async (request) => {
      requireServing(service);
      return await oneOf(service, nameOf(request));
    },
  );
};

function filterOf({
  match,
  state,
  outcome,
}: Static<typeof ListQuery>): ((item: Item) => boolean) | undefined {
  if (match === undefined && state === undefined && outcome === undefined) return undefined;
  return (item) =>
    (match === undefined || nameMatches(match, item.name)) &&
    (outcome === undefined || outcome === item.outcome) &&
    (state === undefined || state === item.state || (state === "unfinished" && item.state !== "complete"));
}

const CHANGES = [
  ["commit", "COMMITTED", "put", "Closes a batch to new members; it is complete once all have ended"],
  ["cancel", "CANCELLED", "manage", "Removes the members that no worker holds"],
] as const;

const addChanges: Routes = (api, service) => {
  api.post(
    "/v1/batches",
    {
      config: { may: "put", byHand: true },
      schema: {
        summary: "Opens a batch",
        body: NewBatch,
        response: answers({ 201: One }, 400, 409, 503, 507),
      },
    },
    async (request, reply) => {
      const { name, keep } = request.body;
      requireName(name);
      const option = keep === undefined ? "" : ` keep=${toMilliseconds(keep, "keep")}`;
      await change(service, `open-batch ${name}${option}`, name, "OPENED");
      reply.code(201);
      return await oneOf(service, name);
    },
  );
  for (const [what, done, may, summary] of CHANGES)
    api.post(
      `/v1/batches/:batch/${what}`,
      {
        config: { may, byHand: true },
        schema: { summary, ...shared, response: answers({ 200: One }, 400, 404, 409, 503) },
      },
      async (request) => {
        const name = nameOf(request);
        await change(service, `${what}-batch ${name}`, name, done);
        return await oneOf(service, name);
      },
    );
};

/** Sends a command about a batch. */
async function change(service: Service, command: string, name: string, done: string): Promise<void> {
  requireServing(service);
  const { line } = await service.wire.command(command);
  if (line === done) return;
  if (line === "NOT_FOUND") throw noSuchBatch(name);
  const why = WHY[line];
  throw why === undefined ? refused(line, service) : new Problem("batch-state", `"${name}" ${why}`);
}

const WHY: Readonly<Record<string, string>> = {
  BATCH_EXISTS: "is the name of a batch that the server still remembers: choose another one.",
  BATCH_CANCELLED: "was cancelled.",
  BATCH_COMPLETE: "is complete already.",
};

const noSuchBatch = (name: string): Problem =>
  new Problem("batch-not-found", `There is no batch "${name}": POST /v1/batches opens one.`);

/** Returns the batches in full, without those that were forgotten in the meantime. */
async function withCounts(service: Service, items: readonly Item[]): Promise<Static<typeof One>[]> {
  // Each batch asks all shards in turn, and other requests must not wait for that.
  const connection = service.wire.open();
  try {
    const replies = await Promise.all(items.map(({ name }) => connection.command(`inspect-batch ${name}`)));
    return replies.flatMap(({ line, body }, index) => {
      if (body === undefined && line !== "NOT_FOUND") throw refused(line, service);
      const { name, number } = items[index]!;
      const report = body === undefined ? undefined : reportOf(name, body);
      // Another batch may have taken the name.
      return report?.number === number ? [report] : [];
    });
  } finally {
    connection.close();
  }
}

type Item = Pick<Static<typeof One>, keyof typeof batchFields>;

function itemOf(line: string): Item {
  const [, name = "", number, state = "", outcome = ""] =
    /^- \{name: "?([^",]*)"?, number: (\d+), state: (\w+), outcome: (\w+)\}$/.exec(line) ?? [];
  return {
    name,
    number: Number(number),
    state: state as Item["state"],
    outcome: outcome === "none" ? null : (outcome as Item["outcome"]),
  };
}

async function oneOf(service: Service, name: string): Promise<Static<typeof One>> {
  const { line, body } = await service.wire.command(`inspect-batch ${name}`);
  if (body === undefined) throw line === "NOT_FOUND" ? noSuchBatch(name) : refused(line, service);
  return reportOf(name, body);
}

function reportOf(name: string, body: Buffer): Static<typeof One> {
  const fields = reportFields(body);
  const numbers = Object.fromEntries(NUMBERS.map((key) => [key, Number(fields[key])])) as Record<
    (typeof NUMBERS)[number],
    number
  >;
  return {
    name,
    number: Number(fields["number"]),
    state: fields["state"] as Item["state"],
    outcome: fields["outcome"] as Item["outcome"],
    ...numbers,
    forgetsIn: fields["state"] === "complete" ? Number(fields["forgetsIn"]) : null,
  };
}

function nameOf({ params, query }: { params: { batch: string }; query: { name?: string } }): string {
  const name = params.batch === "-" ? (query.name ?? "") : params.batch;
  requireName(name);
  return name;
}

/** Names of batches follow the rules of tubes. */
function requireName(name: string): void {
  const bytes = Buffer.from(name);
  if (!isTubeName(bytes, 0, bytes.length))
    throw new Problem(
      "bad-request",
      `"${name}" can't be the name of a batch: 1 to 200 of A-Z a-z 0-9 - + / ; . $ _ ( ), not beginning with -.`,
    );
}
