// Programs with OpenTelemetry's real SDK that use the built client, in a folder as npm fills it.

import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { writeBundle } from "../../packaging/bundle/write-bundle.ts";
import { clientFiles } from "../../packaging/client/client-files.ts";

const PACKAGES = fileURLToPath(new URL("../../node_modules/", import.meta.url));
const MANIFEST = {
  name: "@runnerbean/client",
  type: "module",
  exports: { import: "./client.js", require: "./client.cjs" },
};

export interface PrintedSpan {
  readonly name: string;
  /** By SpanKind of the API. */
  readonly kind: number;
  readonly trace: string;
  readonly id: string;
  readonly parent?: string;
  readonly links: readonly { readonly trace: string; readonly id: string; readonly state?: string }[];
  readonly attributes: Readonly<Record<string, string | number>>;
  readonly status: { readonly code: number; readonly message?: string };
  readonly events: readonly string[];
}

/** Sets up the SDK, and prints all spans at the end. */
const SDK = `
const memory = new InMemorySpanExporter();
trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(memory)] }));
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
propagation.setGlobalPropagator(new CompositePropagator({
  propagators: [new W3CTraceContextPropagator(), new W3CBaggagePropagator()],
}));
const tracer = trace.getTracer("test");
const within = (name, run) => tracer.startActiveSpan(name, async (span) => {
  try { return await run(span); } finally { span.end(); }
});
const print = (more) => {
  const of = ({ traceId, spanId, traceState }) => ({ trace: traceId, id: spanId, state: traceState?.serialize() });
  const spans = memory.getFinishedSpans().map((span) => ({
    name: span.name, kind: span.kind, attributes: span.attributes, status: span.status,
    ...of(span.spanContext()), parent: span.parentSpanContext?.spanId,
    links: span.links.map((link) => of(link.context)), events: span.events.map((event) => event.name),
  }));
  console.log(JSON.stringify({ spans, ...more }));
};
const [address, tube] = process.argv.slice(2);
`;

const NAMES: readonly [names: string, from: string][] = [
  ["{ connect, work }", "@runnerbean/client"],
  ["{ context, propagation, ROOT_CONTEXT, trace, createTraceState }", "@opentelemetry/api"],
  ["{ BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor }", "@opentelemetry/sdk-trace-base"],
  ["{ AsyncLocalStorageContextManager }", "@opentelemetry/context-async-hooks"],
  ["{ CompositePropagator, W3CBaggagePropagator, W3CTraceContextPropagator }", "@opentelemetry/core"],
];

export const asModule = (code: string): string =>
  `${NAMES.map(([names, from]) => `import ${names} from "${from}";\n`).join("")}${SDK}${code}`;

export const asCommonJs = (code: string): string =>
  `${NAMES.map(([names, from]) => `const ${names} = require("${from}");\n`).join("")}${SDK}(async () => {${code}})();`;

/** Puts with and without an active span, with context of its own, and one that fails. */
export const PRODUCER = `
const queue = await connect(address);
const ids = [];
const put = async (...more) => ids.push((await queue.put(tube, ...more)).id);
await put("outside");
await within("checkout", async () => {
  const baggage = propagation.setBaggage(context.active(), propagation.createBaggage({ user: { value: "7" } }));
  await context.with(baggage, () => put("inside", { meta: { tenant: "köln" } }));
  await put("own", { meta: { traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" } });
  const { inserted } = await queue.putMany(tube, ["many"]);
  await queue.put(tube, "x".repeat(70_000)).catch(() => {});
  const quiet = await connect(address, { tracing: false });
  await quiet.put(tube, "quiet");
  await quiet.close();
});
await queue.close();
print({ ids });
`;

/** Works on as many jobs; the one that was put last fails. */
export const WORKER = `
const queue = await connect(address);
const seen = [];
let end;
const over = new Promise((resolve) => { end = resolve; });
const worker = await within("start", () => work(queue, [tube], async (job) => {
  const body = Buffer.from(job.body).toString();
  const user = propagation.getActiveBaggage()?.getEntry("user")?.value;
  seen.push({ body, meta: job.meta, active: trace.getActiveSpan().spanContext().spanId, user });
  if (seen.length === 5) end();
  if (body === "quiet") throw new TypeError("no reason");
  await within("step of " + body, () => new Promise((resolve) => setImmediate(resolve)));
}, { onWarning: () => {} }));
await over;
await worker.stop();
await queue.close();
print({ seen });
`;

/** Writes the client into a folder and, for tracing, the packages of OpenTelemetry. */
export async function writePackages(folder: string, withTelemetry: boolean): Promise<void> {
  const home = join(folder, "node_modules", "@runnerbean", "client");
  writeBundle(await clientFiles(), home);
  writeFileSync(join(home, "package.json"), JSON.stringify(MANIFEST));
  mkdirSync(folder, { recursive: true });
  if (withTelemetry)
    symlinkSync(join(PACKAGES, "@opentelemetry"), join(folder, "node_modules", "@opentelemetry"));
}
