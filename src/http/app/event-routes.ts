// Event streams of resources: each sends the answers of some GET routes whenever they change. The
// hub looks every second, once for all clients that watch the same resource with the same rights.
//
// It sends nothing to a client that does not read. Each answer is complete, so the next one
// replaces those that the client missed. Instead of an answer above the size limit, it sends a
// problem: a page that waits in silence would look as if the server hung.

import { parse as parseQuery } from "node:querystring";
import type { FastifyReply, FastifyRequest, RouteOptions } from "fastify";
import { type TSchema, Type } from "typebox";
import { hooksOf, type Permission, type Routes } from "../api/api.ts";
import { Problem } from "../api/problem.ts";
import { Anything, Fields } from "../api/schemas.ts";
import type { Service } from "../queue/service.ts";
import { checkTubes, requirePermission } from "./authentication.ts";
import { validator } from "./validator.ts";

/** Maximum size of an answer. */
export const ANSWER_BYTES_MAX = 64 * 1024;
const LOOK_EACH_MS = 1000;
/** The hub waits so long for the answers of a look; later ones are sent after the next look. */
const GATHER_MS = 100;
/** A look that takes longer becomes a problem. */
const ANSWER_MS_MAX = 10_000;
export const STREAMS_MAX = 100;
export const STREAMS_PER_CLIENT_MAX = 4;

/** The part of a response that a stream uses. */
export interface Sink {
  write(chunk: string): boolean;
  end(): void;
  readonly writableNeedDrain: boolean;
}

interface Answer {
  readonly path: string;
  readonly status: number;
  readonly content: object;
}

/** A resource as one client may see it. */
interface Watched {
  readonly path: string;
  /** Equal for clients that see the same. */
  readonly key: string;
  readonly look: () => Promise<object>;
}

/** A resource that some streams send. */
interface Topic {
  readonly watched: Watched;
  /** The last answer as JSON; "" before the first. */
  text: string;
  /** When the present look began; undefined between two. */
  beganMs: number | undefined;
  streams: number;
}

interface Stream {
  readonly sink: Sink;
  readonly client: string;
  /** Tells whether the client's token is still valid. */
  readonly stands: () => boolean;
  /** What was sent last of each topic. */
  readonly sent: Map<Topic, string>;
}

/** Looks once. Throws what the route throws. */
export const answerOf = async ({ path, look }: Watched): Promise<Answer> => ({
  path,
  status: 200,
  content: await look(),
});

export class EventHub {
  readonly #service: Service;
  readonly #topics = new Map<string, Topic>();
  readonly #streams = new Set<Stream>();
  readonly #byClient = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  #stopped = false;

  constructor(service: Service) {
    this.#service = service;
  }

  /** Tells whether the client may open another stream. */
  hasRoom(client: string): boolean {
    return (
      !this.#stopped &&
      this.#streams.size < STREAMS_MAX &&
      (this.#byClient.get(client) ?? 0) < STREAMS_PER_CLIENT_MAX
    );
  }

  get at(): string {
    return new Date(this.#service.wallMs()).toISOString();
  }

  refused(path: string, error: unknown): Answer {
    const problem = error instanceof Problem ? error : new Problem("busy", "The server is busy.");
    return { path, status: problem.status, content: problem.body("") };
  }

  /**
   * Sends the resources until the returned function is called or the client's token is no longer
   * valid. `first` has an answer about each.
   */
  open(
    client: string,
    all: readonly Watched[],
    first: readonly Answer[],
    sink: Sink,
    stands: () => boolean = () => true,
  ): () => void {
    const stream: Stream = { sink, client, stands, sent: new Map() };
    for (const [index, watched] of all.entries()) {
      const topic = this.#topics.get(watched.key) ?? { watched, text: "", beganMs: undefined, streams: 0 };
      this.#topics.set(watched.key, topic);
      if (stream.sent.has(topic)) continue;
      topic.streams++;
      if (topic.text === "") topic.text = textOf(first[index]!);
      stream.sent.set(topic, "");
    }
    this.#streams.add(stream);
    this.#service.state.streams++;
    this.#byClient.set(client, (this.#byClient.get(client) ?? 0) + 1);
    this.#send(stream, this.at);
    this.#timer ??= setTimeout(() => void this.#look(), LOOK_EACH_MS);
    return () => this.#close(stream);
  }

  #close(stream: Stream): void {
    if (!this.#streams.delete(stream)) return;
    this.#service.state.streams--;
    const left = this.#byClient.get(stream.client)! - 1;
    if (left === 0) this.#byClient.delete(stream.client);
    else this.#byClient.set(stream.client, left);
    for (const topic of stream.sent.keys()) if (--topic.streams === 0) this.#topics.delete(topic.watched.key);
  }

  /** Looks at all topics, and again a second after the start of this look. */
  async #look(): Promise<void> {
    const { nowMs } = this.#service;
    const beganMs = nowMs();
    const looks = [...this.#topics.values()].map((topic) => this.#renew(topic, beganMs));
    const late = Promise.withResolvers<void>();
    const timer = setTimeout(late.resolve, GATHER_MS);
    await Promise.race([Promise.all(looks), late.promise]);
    clearTimeout(timer);
    const { at } = this;
    for (const stream of this.#streams) this.#send(stream, at);
    this.#timer = undefined;
    if (this.#stopped || this.#streams.size === 0) return;
    this.#timer = setTimeout(() => void this.#look(), Math.max(0, LOOK_EACH_MS - (nowMs() - beganMs)));
  }

  async #renew(topic: Topic, nowMs: number): Promise<void> {
    const { path } = topic.watched;
    if (topic.beganMs !== undefined) {
      if (nowMs - topic.beganMs > ANSWER_MS_MAX) topic.text = textOf(this.refused(path, undefined));
      return;
    }
    topic.beganMs = nowMs;
    topic.text = textOf(await answerOf(topic.watched).catch((error) => this.refused(path, error)));
    topic.beganMs = undefined;
  }

  /** Sends what has changed, and when the hub looked. */
  #send({ sink, stands, sent }: Stream, at: string): void {
    if (!stands()) sink.end();
    else if (!sink.writableNeedDrain) {
      let frames = "";
      for (const [topic, before] of sent) {
        if (topic.text === before) continue;
        sent.set(topic, topic.text);
        frames += `event: answer\ndata: ${topic.text}\n\n`;
      }
      sink.write(`${frames}event: at\ndata: "${at}"\n\n`);
    }
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
    for (const { sink } of this.#streams) sink.end();
  }
}

function textOf(answer: Answer): string {
  const text = JSON.stringify(answer);
  if (Buffer.byteLength(text) <= ANSWER_BYTES_MAX) return text;
  return JSON.stringify({ path: answer.path, status: 413, content: { detail: TOO_LONG } });
}

/** Always the same, or a screen reader would read it out each second. */
const TOO_LONG = `This page has more to show than the ${ANSWER_BYTES_MAX / 1024} KiB that the server sends at a time. If it has a filter, use it to show less.`;

// The routes whose answers /v1/events can send: it calls their handlers as a request would, with
// the rights of the client that watches.

type Check = ReturnType<typeof validator>;

interface LiveRoute {
  readonly url: string;
  readonly parts: readonly string[];
  readonly may: Permission | readonly Permission[];
  readonly checkParams: Check;
  readonly checkQuery: Check;
  readonly options: RouteOptions;
}

/** A route may read headers, and set some; they are not sent. */
const REPLY = { raw: { destroyed: false }, header: () => REPLY } as object as FastifyReply;

class LiveRoutes {
  readonly #routes: LiveRoute[] = [];

  /** Takes a route if it is live. */
  add(options: RouteOptions): void {
    const { url, method, config, schema } = options;
    if (config?.live !== true || method !== "GET") return;
    const { params = Type.Object({}), querystring = Type.Object({}) } = schema ?? {};
    this.#routes.push({
      url,
      parts: url.split("/"),
      may: config.may ?? [],
      checkParams: validator(params as TSchema, true),
      checkQuery: validator(querystring as TSchema, true),
      options,
    });
  }

  /** Throws a Problem if there is no such resource, or the client may not see it. */
  watched(path: string, { identity, owner, seesTexts }: FastifyRequest): Watched {
    const [place = "", search = ""] = path.split(/\?(.*)/s);
    const parts = place.split("/");
    const route = this.#routes.find(
      (each) =>
        each.parts.length === parts.length &&
        each.parts.every((part, index) => part.startsWith(":") || part === parts[index]),
    );
    if (route === undefined)
      throw new Problem(
        "bad-request",
        `"${path}" can't be watched; use ${this.#routes.map(({ url }) => url).join(", ")}.`,
      );
    const named = route.parts.flatMap((part, index) =>
      part.startsWith(":") ? [[part.slice(1), decoded(parts[index]!)]] : [],
    );
    const request = {
      ...{ identity, owner, seesTexts, headers: {}, routeOptions: { url: route.url } },
      params: checked(route.checkParams, Object.fromEntries(named)),
      query: checked(route.checkQuery, { ...parseQuery(search) }),
    } as object as FastifyRequest;
    requirePermission(request, route.may);
    if (identity !== undefined) checkTubes(request, identity);
    const { handler, preHandler } = route.options;
    for (const check of hooksOf(preHandler))
      (check as (request: FastifyRequest, reply: FastifyReply, done: () => void) => void)(
        request,
        REPLY,
        () => {},
      );
    const look = handler as (request: FastifyRequest, reply: FastifyReply) => unknown;
    return {
      path,
      key: JSON.stringify([path, identity && [identity.name, identity.permissions, identity.tubes]]),
      look: async () => (await look(request, REPLY)) as object,
    };
  }
}

function checked(check: Check, given: object): unknown {
  const result = check(given);
  if ("error" in result) throw result.error;
  return result.value;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw new Problem("bad-request", `"${part}" is not percent-encoded.`);
  }
}

// Route of resources that a client watches, as an event stream or once.

const PATHS_MAX = 10;
const Path = Type.String({ maxLength: 4000 });
const Query = Type.Object(
  {
    get: Type.Union([Path, Type.Array(Path, { minItems: 1, maxItems: PATHS_MAX })], {
      description: "Paths such as /v1/tubes?sort=oldest, each percent-encoded.",
    }),
  },
  { additionalProperties: false },
);
const Watch = Fields({
  at: Type.String({ description: "ISO 8601." }),
  answers: Type.Array(Fields({ path: Type.String(), status: Type.Integer(), content: Anything })),
});

/** Refusals that no further look changes. */
const LASTING: readonly number[] = [400, 401, 403];

/** State shared by all listeners: the limit on streams covers them together. */
export function eventRoutes(): Routes {
  let shared: { readonly hub: EventHub; readonly routes: LiveRoutes } | undefined;
  return (api, service) => {
    if (shared === undefined) {
      const routes = new LiveRoutes();
      shared = { hub: new EventHub(service), routes };
      // This must be the first of the routes.
      api.addHook("onRoute", (route) => routes.add(route));
    }
    const { hub, routes } = shared;
    api.addHook("preClose", (done) => {
      hub.stop();
      done();
    });

    const firstAnswer = (watched: Watched): Promise<Answer> =>
      answerOf(watched).catch((error) => {
        if (!(error instanceof Problem) || LASTING.includes(error.status)) throw error;
        return hub.refused(watched.path, error);
      });

    api.get(
      "/v1/events",
      {
        config: { may: "view", quiet: true },
        schema: {
          summary: "The answers of other paths, as a stream of changes (text/event-stream) or once (JSON)",
          querystring: Query,
          response: { 200: Watch, 204: Anything },
        },
      },
      async (request, reply) => {
        const all = [request.query.get].flat().map((path) => routes.watched(path, request as FastifyRequest));
        const answers = await Promise.all(all.map(firstAnswer));
        const now = { at: hub.at, answers };
        if (!(request.headers.accept ?? "").includes("text/event-stream")) return now;
        // The client disconnected, so no event would ever close the stream.
        if (reply.raw.destroyed) return now;
        if (!hub.hasRoom(request.ip)) {
          // An EventSource treats 204 as the end and doesn't reconnect; the page polls instead.
          return reply.code(204).send({});
        }
        reply.hijack();
        const { raw } = reply;
        raw.writeHead(200, {
          "content-type": "text/event-stream; charset=utf-8",
          "cache-control": "no-store",
          "x-accel-buffering": "no",
          "x-content-type-options": "nosniff",
        });
        // A HEAD request gets only the headers; a stream would never close.
        if (request.method === "HEAD") {
          raw.end();
          return reply;
        }
        const close = hub.open(request.ip, all, answers, raw, request.stands);
        raw.on("close", close);
        return reply;
      },
    );
  };
}
