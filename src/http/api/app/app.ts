// The HTTP application: limits, guards, formats and errors of all routes. It opens no socket, so
// tests can call it directly.

import { gzip } from "node:zlib";
import swagger from "@fastify/swagger";
import type { TypeBoxTypeProvider } from "@fastify/type-provider-typebox";
import Fastify, { type FastifyError, type FastifyReply, type FastifyRequest } from "fastify";
import type { TSchema } from "typebox";
import { Busy } from "../../link/busy.ts";
import type { Service } from "../../queue/service.ts";
import { takesGzip } from "../accept-encoding.ts";
import { addAudit } from "../access/audit.ts";
import type { Authentication } from "../access/authentication.ts";
import type { Api, Permission, Routes } from "../api.ts";
import { freeGathered, gatherBody } from "../bodies/gathered-body.ts";
import { jsonText } from "../bodies/json-text.ts";
import { encodeAs, MSGPACK_TYPES, parseMsgpack } from "../bodies/media.ts";
import { addIdempotency, noteContent } from "../limits/answered-once.ts";
import type { ConnectionBudget } from "../limits/connection-budget.ts";
import { LingeringClose } from "../limits/lingering-close.ts";
import { isBehindAnother, PipelinedAnswers } from "../limits/pipelined-answers.ts";
import { RequestBudget } from "../limits/request-budget.ts";
import type { RequestLimit } from "../limits/request-limit.ts";
import type { RequestMeter } from "../limits/request-meter.ts";
import { ResponseBudget } from "../limits/response-budget.ts";
import { Problem, type ProblemCode } from "../problem.ts";
import { guardOf, guardReadsWithEffect } from "./guards.ts";
import { MethodsByPath } from "./methods-by-path.ts";
import { refuseUnknown } from "./strict-requests.ts";
import { refuseUnparsed, takeUnrouted } from "./unparsed.ts";
import { validator } from "./validator.ts";

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
