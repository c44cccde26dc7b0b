// HTTP requests to a server, for commands that the protocol doesn't have.

import { type IncomingMessage, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { withoutAdvice } from "../client/wire.ts";
import { CommandFailed, ExitCode } from "./output.ts";
import { certificateHint, type Target } from "./target.ts";

const BODY_BYTES_MAX = 64 << 20;
const NO_HTTP =
  "; start the server with --http, without which it doesn't answer here, or name another with --url or RUNNERBEAN_HTTP_URL";

const NOT_HTTP = "; it speaks no HTTP: this tool takes the address of --http with --url or -p";

interface HttpAnswer {
  readonly status: number;
  readonly body: unknown;
}

/**
 * Sends a request. Throws CommandFailed for a target that is not HTTP, a failed connection, 401 and
 * 403.
 */
export async function askHttp(
  target: Target,
  method: string,
  path: string,
  json?: unknown,
): Promise<HttpAnswer> {
  mustBeHttp(target);
  const { status, text } = await send(target, method, path, json);
  return permitted({ status, body: parse(text) });
}

function mustBeHttp({ kind }: Target): void {
  if (kind === "http") return;
  throw new CommandFailed(
    "this command uses HTTP: give --url or RUNNERBEAN_HTTP_URL, such as http://127.0.0.1:11380, of a server that was started with --http",
    ExitCode.BadArguments,
  );
}

/** Throws CommandFailed for 401 and 403. */
function permitted(answer: HttpAnswer): HttpAnswer {
  const { status, body } = answer;
  if (status !== 401 && status !== 403) return answer;
  throw new CommandFailed(detailOf(body) ?? "this token may not do that", ExitCode.NotPermitted);
}

/**
 * Sends a GET request for a long response. Throws CommandFailed as `askHttp` does, and for every
 * error response.
 */
export async function streamOf(target: Target, path: string, type: string): Promise<IncomingMessage> {
  mustBeHttp(target);
  const response = await openHttp(target, "GET", path, type);
  const { statusCode: status = 0 } = response;
  if (status === 200 && response.headers["content-type"]?.startsWith(type) === true) return response;
  const body = parse(await textOf(target, response));
  mustBe(target, permitted({ status, body }), { detail: isText });
  throw new CommandFailed(detailOf(body)!, status === 400 ? ExitCode.BadArguments : ExitCode.Nothing);
}

/** Required shape of a response. Fields that are not named may be anything. */
export type Shape = Readonly<Record<string, (value: unknown) => boolean>>;

export const isText = (value: unknown): boolean => typeof value === "string";
export const isNumber = (value: unknown): boolean => typeof value === "number";
export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
export const isListOf =
  (isItem: (value: unknown) => boolean) =>
  (value: unknown): boolean =>
    Array.isArray(value) && value.every(isItem);

/**
 * Throws CommandFailed unless the response is runnerbean's: another program may listen there and
 * answer 200 to everything.
 */
export function mustBe(target: Target, { status, body }: HttpAnswer, shape: Shape): void {
  if (isObject(body) && Object.entries(shape).every(([key, isRight]) => isRight(body[key]))) return;
  throw new CommandFailed(
    `${target.address} answers ${status}, but not as runnerbean does: is --url the address of its HTTP side?`,
    ExitCode.NoConnection,
  );
}

/**
 * Returns the response's body, which must have this shape. Throws CommandFailed for an error
 * response or a foreign server.
 */
export async function resultOf(
  target: Target,
  path: string,
  shape: Shape,
  method = "GET",
  json?: unknown,
): Promise<Readonly<Record<string, unknown>>> {
  const answer = await askHttp(target, method, path, json);
  const { status, body } = answer;
  if (status >= 400) {
    mustBe(target, answer, { detail: isText });
    throw new CommandFailed(detailOf(body)!, status === 400 ? ExitCode.BadArguments : ExitCode.Nothing);
  }
  mustBe(target, answer, status < 300 ? shape : { redirect: () => false });
  return body as Readonly<Record<string, unknown>>;
}

async function send(
  target: Target,
  method: string,
  path: string,
  json: unknown,
): Promise<{ status: number; text: string }> {
  const response = await openHttp(target, method, path, "application/json", json);
  return { status: response.statusCode ?? 0, text: await textOf(target, response) };
}

async function textOf(target: Target, response: IncomingMessage): Promise<string> {
  let text = "";
  let bytes = 0;
  response.setEncoding("utf8");
  try {
    for await (const chunk of response) {
      text += chunk;
      bytes += Buffer.byteLength(chunk);
      if (bytes > BODY_BYTES_MAX) throw new Error("the answer is too long");
    }
  } catch (error) {
    throw noAnswer(target.address, error as Error);
  }
  return text;
}

/** Sends a request, and resolves with the response as soon as its headers are there. */
function openHttp(
  { address, token, ca, limitMs }: Target,
  method: string,
  path: string,
  accept: string,
  json?: unknown,
): Promise<IncomingMessage> {
  const headers = {
    accept,
    ...(json === undefined ? {} : { "content-type": "application/json" }),
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
  };
  const request = address.startsWith("https:") ? requestHttps : requestHttp;
  return new Promise((resolve, reject) => {
    const options = { method, headers, timeout: limitMs, ...(ca === undefined ? {} : { ca }) };
    const sent = request(new URL(path, address), options, resolve);
    sent.on("timeout", () => sent.destroy(new Error(`no answer within ${limitMs} ms`)));
    // After the headers, the response reports the error.
    sent.on("error", (error) => reject(noAnswer(address, error)));
    sent.end(json === undefined ? undefined : JSON.stringify(json));
  });
}

function noAnswer(address: string, error: Error): CommandFailed {
  const { code = "" } = error as NodeJS.ErrnoException;
  // OpenSSL's own message is long.
  const why =
    code === "EPROTO" ? "it has no TLS version in common with this program" : withoutAdvice(error) || code;
  const hint = code === "ECONNREFUSED" ? NO_HTTP : code.startsWith("HPE_") ? NOT_HTTP : certificateHint(code);
  return new CommandFailed(`no answer from ${address}: ${why}${hint}`, ExitCode.NoConnection);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text.trim();
  }
}

function detailOf(body: unknown): string | undefined {
  const { detail } = (typeof body === "object" && body !== null ? body : {}) as { detail?: unknown };
  return typeof detail === "string" ? detail : undefined;
}
