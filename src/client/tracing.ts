// Spans of puts and handlers, by OpenTelemetry's conventions for messaging (1.44), if a program has
// @opentelemetry/api.

import { createRequire } from "node:module";
import type { Job } from "./job.ts";
import type { Meta } from "./meta.ts";
import type { Server } from "./wire.ts";

// Not imported: users without the package compile this file's declarations, too.
type Api = typeof import("@opentelemetry/api");
type Attributes = import("@opentelemetry/api").Attributes;
type Context = import("@opentelemetry/api").Context;
type Link = import("@opentelemetry/api").Link;
type Span = import("@opentelemetry/api").Span;

const SYSTEM = "runnerbean";

let api: Api | undefined;
let wasSought = false;

/** Returns the package, or undefined if the program doesn't have it. */
function findApi(): Api | undefined {
  if (wasSought) return api;
  wasSought = true;
  try {
    // The published file is CommonJS. Bundlers see this call, and the `try` tells them that the
    // package may be missing.
    api = require("@opentelemetry/api") as Api;
  } catch {
    try {
      // The sources are an ES module.
      api = createRequire(import.meta.url)("@opentelemetry/api") as Api;
    } catch {
      // The package isn't installed.
    }
  }
  return api;
}

/** Returns the maker of spans, or undefined if nothing would receive them. */
export function findTracer(server: Server): Tracer | undefined {
  const found = findApi();
  return found && new Tracer(found, server);
}

export class Tracer {
  readonly #api: Api;
  readonly #server: Attributes;

  constructor(found: unknown, { address, port }: Server) {
    this.#api = found as Api;
    this.#server = { "server.address": address, ...(port === undefined ? {} : { "server.port": port }) };
  }

  /**
   * Sends a put in a separate span, if a span is active. `send` gets the context that should travel
   * with the job.
   */
  async put<Put extends { readonly id: number }>(
    tube: string,
    meta: Meta,
    send: (context: Meta) => Promise<Put>,
  ): Promise<Put> {
    const begun = this.#safely(() => this.#beginPut(tube, meta));
    if (begun === undefined) return await send({});
    const { span, context } = begun;
    try {
      const done = await send(context);
      this.#safely(() => span.setAttribute("messaging.message.id", `${done.id}`));
      return done;
    } catch (error) {
      this.#fail(span, error);
      throw error;
    } finally {
      this.#safely(() => span.end());
    }
  }

  /** Runs the handler of a job in a span, which is linked to the put. */
  async process<Out>(job: Job<Out>, handle: () => unknown): Promise<void> {
    const { context, trace } = this.#api;
    const begun = this.#safely(() => this.#beginProcess(job));
    if (begun === undefined) return void (await handle());
    const { span, remote } = begun;
    try {
      await context.with(trace.setSpan(remote, span), async () => await handle());
    } catch (error) {
      this.#safely(() => span.recordException(error instanceof Error ? error : String(error)));
      this.#fail(span, error);
      throw error;
    } finally {
      this.#safely(() => span.end());
    }
  }

  #beginPut(tube: string, meta: Meta): { readonly span: Span; readonly context: Meta } | undefined {
    const { context, isSpanContextValid, propagation, SpanKind, trace } = this.#api;
    const active = context.active();
    const parent = trace.getSpanContext(active);
    if (parent === undefined || !isSpanContextValid(parent)) return undefined;
    // If the program gave a context, that one travels.
    const own = this.#linkTo(this.#extract(meta));
    const span = this.#tracer.startSpan(
      `put ${tube}`,
      {
        kind: own === undefined ? SpanKind.PRODUCER : SpanKind.CLIENT,
        attributes: this.#attributes("put", "send", tube),
        ...(own && { links: [own] }),
      },
      active,
    );
    const carrier: Record<string, string> = {};
    if (own === undefined) propagation.inject(trace.setSpan(active, span), carrier);
    for (const name of Object.keys(meta)) delete carrier[name];
    return { span, context: carrier };
  }

  #beginProcess<Out>({ id, meta, tube }: Job<Out>): { readonly span: Span; readonly remote: Context } {
    const remote = this.#extract(meta);
    const link = this.#linkTo(remote);
    const attributes = { ...this.#attributes("process", "process", tube), "messaging.message.id": `${id}` };
    const name = tube === undefined ? "process" : `process ${tube}`;
    const kind = this.#api.SpanKind.CONSUMER;
    // A new trace: it has nothing to do with the span that was active when the worker started.
    const options = { kind, attributes, root: true, ...(link && { links: [link] }) };
    return { span: this.#tracer.startSpan(name, options, remote), remote };
  }

  get #tracer() {
    return this.#api.trace.getTracer("@runnerbean/client");
  }

  #extract(meta: Meta): Context {
    return this.#api.propagation.extract(this.#api.ROOT_CONTEXT, meta);
  }

  #linkTo(from: Context): Link | undefined {
    const context = this.#api.trace.getSpanContext(from);
    return context && this.#api.isSpanContextValid(context) ? { context } : undefined;
  }

  #attributes(name: string, type: string, tube: string | undefined): Attributes {
    return {
      "messaging.system": SYSTEM,
      "messaging.operation.name": name,
      "messaging.operation.type": type,
      ...(tube === undefined ? {} : { "messaging.destination.name": tube }),
      ...this.#server,
    };
  }

  #fail(span: Span, error: unknown): void {
    const [type, message] = error instanceof Error ? [error.name, error.message] : ["_OTHER", String(error)];
    this.#safely(() => span.setAttribute("error.type", type));
    this.#safely(() => span.setStatus({ code: this.#api.SpanStatusCode.ERROR, message }));
  }

  /** No plugin of OpenTelemetry may make a job fail. */
  #safely<T>(action: () => T): T | undefined {
    try {
      return action();
    } catch (error) {
      this.#api.diag.error("@runnerbean/client: a span failed", error);
      return undefined;
    }
  }
}
