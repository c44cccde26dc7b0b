// The HTTP application, and the guards that each request passes.

import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { gzip } from "node:zlib";
import swagger from "@fastify/swagger";
import type { TypeBoxTypeProvider } from "@fastify/type-provider-typebox";
import type {
  FastifyError,
  FastifyReply,
  FastifyRequest,
  onRequestHookHandler,
  preHandlerHookHandler,
} from "fastify";
import Fastify from "fastify";
import type { TSchema } from "typebox";
import { type Api, hooksOf, type Permission, type Routes } from "../api/api.ts";
import { Problem, type ProblemCode } from "../api/problem.ts";
import { ProblemBody } from "../api/schemas.ts";
import {
  type ConnectionBudget,
  isBehindAnother,
  PipelinedAnswers,
  RequestBudget,
  ResponseBudget,
} from "../limits/budgets.ts";
import type { RequestLimit } from "../limits/request-limit.ts";
import type { RequestMeter } from "../limits/request-meter.ts";
import { Busy } from "../link/control-client.ts";
import type { Service } from "../queue/service.ts";
import { addIdempotency, noteContent } from "./answered-once.ts";
import { addAudit } from "./audit.ts";
import type { Authentication } from "./authentication.ts";
import { LingeringClose, refuseUnparsed, takeUnrouted } from "./early-refusals.ts";
import {
  encodeAs,
  freeGathered,
  gatherBody,
  jsonText,
  MSGPACK_TYPES,
  parseMsgpack,
  takesGzip,
} from "./request-bodies.ts";
import { validator } from "./validator.ts";

/** The methods that each path supports, for the response to another method. Matched only then. */
class MethodsByPath {
  /** Methods by the path's template. */
  readonly #methods = new Map<string, { readonly path: RegExp; readonly methods: Set<string> }>();

  add(methods: readonly string[], url: string): void {
    let known = this.#methods.get(url);
    if (known === undefined) {
      const parts = url.split("/").map((part) => (part.startsWith(":") ? "[^/]+" : RegExp.escape(part)));
      known = { path: new RegExp(`^${parts.join("/")}$`), methods: new Set() };
      this.#methods.set(url, known);
    }
    for (const method of methods) known.methods.add(method);
  }

  /** Returns the methods of a path in alphabetical order; empty if the path doesn't exist. */
  of(path: string): string[] {
    const found = [...this.#methods.values()].filter((each) => each.path.test(path));
    return [...new Set(found.flatMap(({ methods }) => [...methods]))].sort();
  }
}

// Refuses what a route doesn't know: a parameter of the query, or a body where none is taken. In a
// request that changes something, a typo must not be silent.

/** Routes for people and programs. Probes and scrapes may have parameters of their own. */
const STRICT = "/v1/";
const WITHOUT_BODY: ReadonlySet<string> = new Set(["GET", "HEAD"]);

/**
 * Must be called before the routes are added. The checks run after those of permissions, which say
 * more.
 */
function refuseUnknown(api: Api): void {
  api.addHook("onRoute", (route) => {
    if (!route.url.startsWith(STRICT)) return;
    const { querystring = {}, body, response = {} } = route.schema ?? {};
    route.schema = { ...route.schema, response: { 400: ProblemBody, ...(response as object) } };
    const checks = [route.preHandler ?? []].flat();
    // A schema that says itself what it does with other parameters has been applied.
    if (!("additionalProperties" in (querystring as object)))
      checks.push(refuseParameters(Object.keys((querystring as { properties?: object }).properties ?? {})));
    if (body === undefined && !WITHOUT_BODY.has(`${route.method}`)) checks.push(refuseBody);
    route.preHandler = checks;
  });
}

function refuseParameters(known: readonly string[]): preHandlerHookHandler {
  const others = known.length === 0 ? "" : `; known are ${known.join(", ")}`;
  return ({ query }, _reply, done) => {
    for (const name of Object.keys(query as object))
      if (!known.includes(name)) throw new Problem("bad-request", `"/${name}" is not known here${others}.`);
    done();
  };
}

/** Clients name the type of a content even where they send none, and some send an empty object. */
const refuseBody: preHandlerHookHandler = ({ body }, _reply, done) => {
  if (body === undefined || body === null) return done();
  const isRaw = typeof body !== "object" || Array.isArray(body) || ArrayBuffer.isView(body);
  // The fields of bytes and lists are their indices, of which there may be millions.
  const [field] = isRaw ? [""] : Object.keys(body);
  if (field === undefined || (Array.isArray(body) && body.length === 0)) return done();
  throw new Problem(
    "bad-request",
    isRaw ? "This request takes no body." : `"/${field}" is not known here: this request takes no body.`,
  );
};

// Guards against requests that a proxy may parse differently, that name a foreign host, or that
// come from other sites.
//
// If a server has no tokens, any page could make a browser on its machine send requests to it. Two
// headers expose that: Sec-Fetch-Site (or Origin) names the page's site, and Host carries the
// foreign name of a DNS rebinding attack.

const SAFE_METHODS: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS"]);
const IPV4 = /^[0-9]{1,3}(?:\.[0-9]{1,3}){3}$/;
const IPV6 = /^\[[0-9a-fA-F:.]+\]$/;
const PORT = /:[0-9]*$/;
/** The expression by which Node knows this expectation. */
const CONTINUE = /(?:^|\W)100-continue(?:$|\W)/i;
/** The absolute form of a target, with its authority. */
const ABSOLUTE = /^https?:\/\/([^/?#]*)/i;

/** The parts of a request that show its form. */
type Form = Pick<IncomingMessage, "httpVersion" | "url" | "headers" | "rawHeaders">;

/** Returns a function that throws if a request is refused by one of the guards. */
function guardOf(
  hosts: ReadonlySet<string>,
  isSecure: boolean,
): (request: Form & Pick<IncomingMessage, "method">) => void {
  let knownHost: string | undefined;
  return (request) => {
    checkForm(request);
    checkEncoding(request.headers);
    const host = hostOf(request);
    if (host !== knownHost) {
      checkHost(host, hosts);
      knownHost = host;
    }
    checkSite(request.method ?? "", request.headers, isSecure);
  };
}

/** Throws for forms of a request that Node's parser accepts and RFC 9112 lets a server refuse. */
export function checkForm({ httpVersion, headers, rawHeaders }: Form): void {
  const refused = (detail: string): Problem => new Problem("bad-request", detail);
  if (httpVersion !== "1.1" && httpVersion !== "1.0")
    throw refused(`This server accepts HTTP/1.1 and HTTP/1.0, not HTTP/${httpVersion}.`);
  const coding = headers["transfer-encoding"];
  if (coding !== undefined && (coding.toLowerCase() !== "chunked" || httpVersion === "1.0"))
    throw refused("The only Transfer-Encoding allowed is chunked, in HTTP/1.1.");
  // Node uses the first of several; another program may use the last.
  let hosts = 0;
  for (let at = 0; at < rawHeaders.length; at += 2)
    if (rawHeaders[at]!.length === 4 && rawHeaders[at]!.toLowerCase() === "host") hosts++;
  if (hosts > 1 || (hosts === 0 && httpVersion === "1.1"))
    throw refused("A request must have exactly one Host.");
  // HTTP/1.0 has no expectations. Node has answered those of 100-continue.
  const { expect } = headers;
  if (expect !== undefined && httpVersion === "1.1" && !CONTINUE.test(expect))
    throw new Problem("expectation-failed", 'This server meets "Expect: 100-continue" and nothing else.');
}

/** Throws for an encoded body: bodies are stored, or parsed, as they come. */
function checkEncoding({ "content-encoding": encoding = "" }: IncomingHttpHeaders): void {
  if (encoding !== "" && encoding.toLowerCase() !== "identity")
    throw new Problem("unsupported-media-type", "Send the body without Content-Encoding.");
}

/** Returns the host that the request is for. An absolute target takes precedence over Host. */
export function hostOf({ url = "", headers }: Pick<Form, "url" | "headers">): string | undefined {
  return url.startsWith("/") ? headers.host : (ABSOLUTE.exec(url)?.[1] ?? headers.host);
}

/**
 * Throws if the request is for a foreign host. `hosts` holds the allowed names besides addresses
 * and localhost.
 */
export function checkHost(host: string | undefined, hosts: ReadonlySet<string>): void {
  // HTTP/1.0 needs no Host header, one of HTTP/1.1 may be empty, and every browser sends a name.
  if (host === undefined || host === "") return;
  const name = host.replace(PORT, "").toLowerCase();
  if (name === "localhost" || IPV4.test(name) || IPV6.test(name) || hosts.has(name)) return;
  throw new Problem(
    "wrong-host",
    `This server does not have the name "${name}". Use its address, or start it with --http-hosts ${name}.`,
  );
}

/** Adds the guard against other sites to each GET that does more than read. */
function guardReadsWithEffect(api: Api, isSecure: boolean): void {
  const guard: onRequestHookHandler = ({ headers }, _reply, done) => {
    refuseOtherSites(headers, isSecure);
    done();
  };
  api.addHook("onRoute", (route) => {
    if (route.config?.hasEffect === true) route.onRequest = [guard, ...hooksOf(route.onRequest)];
  });
}

/** Throws if a browser sends a change on behalf of another site. */
export function checkSite(method: string, headers: IncomingHttpHeaders, isSecure: boolean): void {
  if (!SAFE_METHODS.has(method)) refuseOtherSites(headers, isSecure);
}

function refuseOtherSites(headers: IncomingHttpHeaders, isSecure: boolean): void {
  const site = headers["sec-fetch-site"];
  if (site === "same-origin" || site === "none") return;
  // A browser gives no origin for an image or a link.
  const origin = headers.origin ?? headers.referer;
  if (site === undefined && (origin === undefined || isSameOrigin(origin, headers, isSecure))) return;
  throw new Problem("cross-site", "A page of another site may not change anything here.");
}

/** A page can't send X-Forwarded-Proto to another site: the browser's preflight request fails. */
function isSameOrigin(origin: string, { host, ...headers }: IncomingHttpHeaders, isSecure: boolean): boolean {
  const isHttps = isSecure || headers["x-forwarded-proto"] === "https";
  try {
    return new URL(origin).origin === new URL(`${isHttps ? "https" : "http"}://${host}`).origin;
  } catch {
    return false;
  }
}

// The HTTP application: limits, guards, formats and errors of all routes. It opens no socket, so
// tests can call it directly.

/** Maximum size of a request in JSON or MessagePack, in bytes. */
export const BODY_BYTES_MAX = 8 * 1024 * 1024;
/** Maximum of unsent bytes of responses above 64 KiB, all together. */
export const ANSWER_BYTES_MAX = 128 * 1024 * 1024;
/** Longer than any wait for a job: a client that reads nothing for this long is gone, ms. */
const SILENT_MS_MAX = 330_000;
const URL_BYTES_MAX = 8 * 1024;
/** A name has up to 200 bytes, and each may be percent-encoded. */
const PARAM_LENGTH_MAX = 700;
/** Longer responses are compressed if the client accepts gzip. */
const GZIP_BYTES_MIN = 4096;

/** Options of Node's server. */
const NODE_HTTP = {
  headersTimeout: 10_000,
  maxHeaderSize: 16 * 1024,
  // The default of 30 s would round all timeouts up to that.
  connectionsCheckingInterval: 2000,
  // Node would refuse a request without Host by itself; the guard does that, with a problem.
  requireHostHeader: false,
};

interface AppOptions {
  readonly service: Service;
  /** Host names of this server, besides addresses and localhost. */
  readonly hosts: ReadonlySet<string>;
  readonly routes: readonly Routes[];
  readonly meter: RequestMeter;
  /** Without it, no request needs a token. */
  readonly authentication?: Authentication;
  /** Permission that needs no token on this listener. */
  readonly open?: Permission | undefined;
  /** Limits the connections. Without it, there may be any number. */
  readonly connections?: ConnectionBudget;
  /** Limits the request rate. Without it, there is no limit. */
  readonly limit?: RequestLimit;
  /** Budget for requests in progress. The default is a budget of its own. */
  readonly room?: RequestBudget;
  /** Budget for responses in progress, with the same default. */
  readonly answerRoom?: ResponseBudget;
  /** Options of node:tls, for HTTPS. */
  readonly tls?: object | undefined;
  /** Called for each refused client whose connection is still open at the limit of its close. */
  readonly onCutOff?: () => void;
  /** Receives errors that no client caused. */
  readonly onError: (message: string) => void;
  /** Receives a line for each manual change. */
  readonly onChange: (line: string) => void;
}

export function createApp(options: AppOptions): Api {
  const { service, hosts, routes, meter, authentication, open, limit, tls, onError } = options;
  const { onCutOff = () => {} } = options;
  const { room = new RequestBudget(BODY_BYTES_MAX), answerRoom = new ResponseBudget(ANSWER_BYTES_MAX) } =
    options;
  const protocol = tls === undefined ? { http: NODE_HTTP } : { https: { ...tls, ...NODE_HTTP } };
  const lingering = new LingeringClose(onCutOff);
  const newId = requestIds(service.facts.instanceId);
  const api = Fastify({
    ...(protocol as { http: typeof NODE_HTTP }),
    logger: false,
    bodyLimit: BODY_BYTES_MAX,
    routerOptions: { maxParamLength: PARAM_LENGTH_MAX },
    requestTimeout: 30_000,
    connectionTimeout: SILENT_MS_MAX,
    keepAliveTimeout: 72_000,
    forceCloseConnections: "idle",
    // A hook below refuses requests during the close, with a problem.
    return503OnClosing: false,
    requestIdHeader: false,
    genReqId: newId,
    schemaController: { compilersFactory: { buildValidator: notCalled, buildSerializer: notCalled } },
    frameworkErrors: refuseUrl(lingering),
    clientErrorHandler: refuseUnparsed(lingering, newId),
  }).withTypeProvider<TypeBoxTypeProvider>() as Api;
  api.setValidatorCompiler(({ schema, httpPart }) => validator(schema as TSchema, httpPart !== "body"));
  // Schemas of responses only serve the OpenAPI document; routes return the final payload.
  api.setSerializerCompiler(() => (payload) => JSON.stringify(payload));
  decorateRequests(api);
  takeUnrouted(api, lingering, newId);
  const pipelined = new PipelinedAnswers();
  const guard = guardOf(hosts, tls !== undefined);
  api.addHook("onRequest", (request, reply, done) => {
    meter.underWay++;
    // The request ends when its response is sent or its client disconnects. "close" is emitted
    // once, and `once` would add a wrapper.
    reply.raw.on("close", () => {
      meter.underWay--;
      room.give(request);
      answerRoom.give(request);
    });
    sayAlways(request, reply);
    if (isBehindAnother(reply.raw)) pipelined.add(reply.raw, request.raw);
    if (request.url.length > URL_BYTES_MAX)
      throw new Problem("uri-too-long", `More than ${URL_BYTES_MAX} bytes.`);
    guard(request.raw);
    done();
  });
  refuseDuringClose(api);
  options.connections?.addTo(api);
  lingering.addTo(api);
  api.addHook("preSerialization", (request, reply, payload, done) => {
    encodeAs(request, reply);
    done(null, payload);
  });
  answerRoom.addTo(api, compress);
  meter.addTo(api);
  addFormats(api, room);
  addErrors(api, onError);
  void api.register(swagger, {
    openapi: {
      openapi: "3.1.0",
      info: {
        title: "runnerbean",
        description: "The HTTP side of a work queue.",
        version: service.facts.version,
      },
    },
  });
  void api.register((scope, _options, done) => {
    authentication?.addTo(scope as Api, open);
    limit?.addTo(scope as Api);
    room.addTo(scope as Api);
    addChangeRules(scope as Api, options);
    refuseUnknown(scope as Api);
    for (const add of routes) add(scope as Api, service);
    done();
  });
  return api;
}

/** Adds what all routes with an effect obey. */
function addChangeRules(api: Api, { service, tls, onChange }: AppOptions): void {
  guardReadsWithEffect(api, tls !== undefined);
  addIdempotency(api, service);
  addAudit(api, service, onChange);
}

/** Refuses requests that arrive on open connections while the application closes. */
function refuseDuringClose(api: Api): void {
  let isClosing = false;
  api.addHook("preClose", (done) => {
    isClosing = true;
    done();
  });
  api.addHook("onRequest", (_request, _reply, done) => {
    if (isClosing) throw new Problem("stopping", "The server is stopping; try again in a moment.");
    done();
  });
}

/** Replaces fastify's own compilers, several MB that it would load although others are set. */
function notCalled(): never {
  throw new Error("a schema is compiled before the application has set its compilers");
}

/**
 * Answers a URL that the router can't parse, and ends its connection. Such requests bypass all
 * hooks and their limits. After an unanswered request, the connection ends at once: Node stops
 * reading while many answers wait, and then doesn't notice that the client has disconnected.
 */
const refuseUrl =
  (lingering: LingeringClose) =>
  (error: FastifyError, request: FastifyRequest, reply: FastifyReply): void => {
    if (isBehindAnother(reply.raw)) request.raw.socket.destroy();
    sayAlways(request, reply);
    reply.header("connection", "close");
    lingering.prepare(request, reply);
    sendProblem(problemOf(error), request, reply);
  };

/** Declares the fields of all requests, with or without a route. */
function decorateRequests(api: Api): void {
  api.decorateRequest("bodyRoom", 0);
  api.decorateRequest("bodyBytesMax", BODY_BYTES_MAX);
  api.decorateRequest("gathered");
  api.decorateRequest("contentHash", "");
  api.decorateRequest("text");
}

/** Sets the headers that all responses have. */
function sayAlways(request: FastifyRequest, reply: FastifyReply): void {
  reply.header("x-request-id", request.id);
  reply.header("x-content-type-options", "nosniff");
  reply.header("cache-control", "no-store");
}

/** Returns a generator of ids that are unique across servers and restarts. */
function requestIds(instanceId: string): () => string {
  let count = 0;
  const start = instanceId.slice(0, 8);
  return () => `${start}-${(++count).toString(36)}`;
}

function addFormats(api: Api, room: RequestBudget): void {
  // Plain text may be the body of a job, so it is not parsed or gathered here.
  api.removeContentTypeParser("text/plain");
  // Such keys are as good as others: nothing merges a parsed value into another object.
  const parseJson = api.getDefaultJsonParser("ignore", "ignore");
  type Done = (error: Error | null, value?: unknown) => void;
  const add = (types: string[], parse: (request: FastifyRequest, body: Buffer, done: Done) => void): void =>
    api.addContentTypeParser(types, (request, payload, done) => {
      const onBody = (error: Error | null, body?: Buffer): void => {
        if (error !== null) {
          done(error);
          return;
        }
        noteContent(request, body!);
        parse(request, body!, done);
      };
      gatherBody(request, payload, request.bodyBytesMax, onBody, (bytes) => room.grow(request, bytes));
    });
  add(["application/json"], (request, body, done) => {
    let text: string;
    try {
      text = jsonText(body);
    } catch (refusal) {
      done(refusal as Error);
      return;
    } finally {
      freeGathered(request);
    }
    if (request.routeOptions.config.keepsText === true) request.text = text;
    // Clients give the type even when they send no body. A put needs a body.
    else if (text === "") return done(null, undefined);
    parseJson(request, text, done);
  });
  add([...MSGPACK_TYPES], (_request, body, done) => {
    let value: unknown;
    try {
      value = parseMsgpack(body);
    } catch (broken) {
      done(broken as Error);
      return;
    }
    done(null, value);
  });
}

function addErrors(api: Api, onError: (message: string) => void): void {
  const methods = new MethodsByPath();
  api.addHook("onRoute", ({ method, url }) => methods.add([method].flat(), url));
  // Runs before the body is read, because a client without a token may request unknown paths, and
  // no budget covers their bodies.
  api.addHook("onRequest", (request, reply, done) => {
    if (!request.is404) return done();
    const allowed = methods.of(request.url.split("?", 1)[0]!);
    if (allowed.length > 0) {
      reply.header("allow", allowed.join(", "));
      throw new Problem("method-not-allowed", `This takes ${allowed.join(" and ")}; see /v1/openapi.json.`);
    }
    throw new Problem("not-found", `There is no ${request.method} ${request.url}; see /v1/openapi.json.`);
  });
  api.setErrorHandler((error: Error, request, reply) => {
    const problem = problemOf(error as FastifyError);
    if (problem.status === 500)
      onError(`${request.method} ${request.url} (${request.id}): ${error.stack ?? error.message}`);
    sendProblem(problem, request, reply);
  });
}

function sendProblem(problem: Problem, request: FastifyRequest, reply: FastifyReply): void {
  const { retryAfterSeconds } = problem;
  if (retryAfterSeconds !== undefined) reply.header("retry-after", retryAfterSeconds);
  reply
    .code(problem.status)
    .type("application/problem+json")
    .serializer((body: unknown) => JSON.stringify(body))
    .send(problem.body(request.id));
}

const BY_STATUS: Readonly<Record<number, ProblemCode>> = {
  400: "bad-request",
  408: "request-timeout",
  413: "body-too-big",
  414: "uri-too-long",
  415: "unsupported-media-type",
};

function problemOf(error: FastifyError): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof Busy) return new Problem("busy", `${error.message}; try again in a moment.`);
  const code = error.statusCode === undefined ? undefined : BY_STATUS[error.statusCode];
  if (error.code === "FST_ERR_CTP_INVALID_MEDIA_TYPE")
    return new Problem(
      "unsupported-media-type",
      `${error.message}. This route accepts JSON and MessagePack.`,
    );
  if (code !== undefined) return new Problem(code, `${error.message}.`);
  // The client disconnected: not a fault of the server.
  if (error.code === "ECONNRESET") return new Problem("bad-request", "The request broke off.");
  return new Problem("internal", "The server's log has the error, under the id of this request.");
}

/** Compresses long responses in the thread pool. */
function compress(
  request: FastifyRequest,
  reply: FastifyReply,
  payload: unknown,
  done: (error: Error | null, payload?: unknown) => void,
): void {
  const isLong =
    (typeof payload === "string" || Buffer.isBuffer(payload)) && payload.length >= GZIP_BYTES_MIN;
  const takes = takesGzip(request.headers["accept-encoding"]);
  if (!isLong || !takes || reply.hasHeader("content-encoding")) {
    done(null, payload);
    return;
  }
  gzip(payload, (error, compressed) => {
    if (error === null) {
      reply.header("content-encoding", "gzip");
      reply.header("vary", "accept-encoding");
      reply.removeHeader("content-length");
    }
    done(error, compressed);
  });
}
