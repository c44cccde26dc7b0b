// Tests of the client's spans and of the context that travels with jobs: a producer and a worker in
// processes of their own, with OpenTelemetry's SDK; and of programs that don't have it.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { promisify } from "node:util";
import { build } from "esbuild";
import { missing, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { type ServerKind, type ServerProcess, startServer } from "../support/server/server-process.ts";
import { skipVariant } from "../support/whole.ts";
import { nodes } from "./nodes.ts";
import {
  asCommonJs,
  asModule,
  PRODUCER,
  type PrintedSpan,
  WORKER,
  writePackages,
} from "./tracing-programs.ts";

const run = promisify(execFile);

const Kind = { client: 2, producer: 3, consumer: 4 } as const;

interface Seen {
  readonly body: string;
  readonly meta: Readonly<Record<string, string>>;
  readonly active: string;
  readonly user?: string;
}

describe("the client's tracing", () => {
  const folder = temporaryFolder({ after }, "tracing");
  const bare = temporaryFolder({ after }, "no-tracing");
  let server: ServerProcess;
  let tubes = 0;
  before(async () => {
    await Promise.all([writePackages(folder, true), writePackages(bare, false)]);
    server = await startServer({ kind: "ours", flags: ["--shards", "2"] });
  });
  after(() => server?.stop());

  /** Runs a program, and returns what it prints as JSON. */
  async function prints(home: string, file: string, code: string, tube: string, port = server.port) {
    writeFileSync(join(home, file), code);
    const args = [join(home, file), `127.0.0.1:${port}`, tube];
    const { stdout, stderr } = await run(nodes()[0]!, args, { timeout: 60_000 });
    assert.equal(stderr, "");
    return JSON.parse(stdout);
  }

  const named = (spans: readonly PrintedSpan[], name: string): readonly PrintedSpan[] =>
    spans.filter((span) => span.name === name);

  for (const [kind, producer, worker] of [
    ["an ES module to CommonJS", asModule, asCommonJs],
    ["CommonJS to an ES module", asCommonJs, asModule],
  ] as const) {
    it(`links a handler to the put, from ${kind}`, async () => {
      const tube = `t${tubes++}`;
      const name = (make: unknown): string => (make === asModule ? "program.mjs" : "program.cjs");
      const put = await prints(folder, `put-${tube}-${name(producer)}`, producer(PRODUCER), tube);
      const done = await prints(folder, `work-${tube}-${name(worker)}`, worker(WORKER), tube);
      checkPuts(put.spans, put.ids, tube);
      checkHandlers(put.spans, done.spans, done.seen, tube);
    });
  }

  /** `ids` are of the jobs "outside", "inside" and "own". */
  function checkPuts(spans: readonly PrintedSpan[], ids: readonly number[], tube: string): void {
    const [checkout] = named(spans, "checkout");
    const [inside, own, many, tooBig, ...more] = named(spans, `put ${tube}`);
    assert.deepEqual(more, [], "none outside of a span, and none without tracing");
    const shared = {
      "messaging.system": "runnerbean",
      "messaging.operation.name": "put",
      "messaging.operation.type": "send",
      "messaging.destination.name": tube,
      "server.address": "127.0.0.1",
      "server.port": server.port,
    };
    for (const span of [inside!, own!, many!, tooBig!])
      assert.deepEqual([span.trace, span.parent], [checkout!.trace, checkout!.id]);
    assert.deepEqual(inside!.attributes, { ...shared, "messaging.message.id": `${ids[1]}` });
    assert.deepEqual([inside!.kind, inside!.links, inside!.status], [Kind.producer, [], { code: 0 }]);
    assert.equal(many!.kind, Kind.producer);
    assert.deepEqual(
      [own!.kind, own!.links],
      [Kind.client, [{ trace: "4bf92f3577b34da6a3ce929d0e0e4736", id: "00f067aa0ba902b7" }]],
    );
    assert.deepEqual(tooBig!.attributes, { ...shared, "error.type": "JobTooBig" });
    assert.equal(tooBig!.status.code, 2);
    assert.match(tooBig!.status.message!, /JOB_TOO_BIG/);
  }

  function checkHandlers(
    puts: readonly PrintedSpan[],
    spans: readonly PrintedSpan[],
    seen: readonly Seen[],
    tube: string,
  ): void {
    const [checkout] = named(puts, "checkout");
    const [inside, , many] = named(puts, `put ${tube}`);
    const handlers = named(spans, `process ${tube}`);
    assert.deepEqual(
      seen.map(({ body, active, user }) => [body, active, user]),
      ["outside", "inside", "own", "many", "quiet"].map((body, index) => [
        body,
        handlers[index]!.id,
        body === "inside" ? "7" : undefined,
      ]),
    );
    const linked = (span: PrintedSpan): unknown => [{ trace: span.trace, id: span.id }];
    assert.deepEqual(
      handlers.map(({ links }) => links),
      [
        [],
        linked(inside!),
        [{ trace: "4bf92f3577b34da6a3ce929d0e0e4736", id: "00f067aa0ba902b7" }],
        linked(many!),
        [],
      ],
    );
    assert.deepEqual(seen[1]!.meta, {
      tenant: "köln",
      traceparent: `00-${checkout!.trace}-${inside!.id}-01`,
      baggage: "user=7",
    });
    for (const span of handlers) assert.deepEqual([span.kind, span.parent], [Kind.consumer, undefined]);
    const [step] = named(spans, "step of inside");
    assert.deepEqual([step!.trace, step!.parent], [handlers[1]!.trace, handlers[1]!.id]);
    assert.equal(handlers[1]!.attributes["messaging.operation.type"], "process");
    assert.equal(handlers[1]!.attributes["messaging.message.id"], inside!.attributes["messaging.message.id"]);
    assert.equal(handlers[1]!.attributes["messaging.destination.name"], tube);
    const failed = handlers[4]!;
    assert.deepEqual(failed.status, { code: 2, message: "no reason" });
    assert.deepEqual([failed.attributes["error.type"], failed.events], ["TypeError", ["exception"]]);
  }

  it("makes a span of a put, but sends no context to a plain beanstalkd", async (t) => {
    const why = missing(NEEDS.beanstalkd);
    if (why !== undefined) return t.skip(why);
    const kind: ServerKind = "beanstalkd-1.12";
    const plain = await startServer({ kind });
    t.after(() => plain.stop());
    const code = `
      const queue = await connect(address);
      await within("checkout", () => queue.put(tube, "x"));
      queue.watch(tube);
      const { meta } = await queue.reserve();
      await queue.close();
      print({ meta });`;
    const { spans, meta } = await prints(folder, "plain.mjs", asModule(code), "t", plain.port);
    assert.deepEqual(meta, {});
    assert.equal(named(spans, "put t").length, 1);
  });

  it("fails no job because a span fails", async () => {
    const tube = `t${tubes++}`;
    const code = `
      const processor = { onStart() { throw new Error("start"); }, onEnd() {}, forceFlush() {}, shutdown() {} };
      trace.disable();
      const queue = await connect(address);
      const outer = trace.wrapSpanContext({ traceId: "4bf92f3577b34da6a3ce929d0e0e4736", spanId: "00f067aa0ba902b7", traceFlags: 1 });
      trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [processor] }));
      await context.with(trace.setSpan(ROOT_CONTEXT, outer), () => queue.put(tube, "a"));
      trace.disable();
      const late = { ...processor, onStart() {}, onEnd() { throw new Error("end"); } };
      trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [late] }));
      await context.with(trace.setSpan(ROOT_CONTEXT, outer), () => queue.put(tube, "b"));
      let count = 0;
      await new Promise((resolve) => {
        const worker = work(queue, [tube], () => ++count === 2 && resolve(worker.stop()));
      });
      const stats = await queue.tube(tube).stats().catch(() => ({ currentJobsBuried: 0 }));
      await queue.close();
      print({ count, buried: stats.currentJobsBuried });`;
    const { count, buried } = await prints(folder, "failing.mjs", asModule(code), tube);
    assert.deepEqual({ count, buried }, { count: 2, buried: 0 });
  });

  const USE = `
    const queue = await connect(process.argv[2]);
    const { id } = await queue.put(process.argv[3], "x", { meta: { tenant: "a" } });
    queue.watch(process.argv[3]);
    const { meta } = await queue.reserve();
    await queue.close();`;

  it("loads nothing if there is no such package", async () => {
    const code = `const { connect } = require("@runnerbean/client");
      (async () => {${USE}
        const loaded = Object.keys(require.cache).filter((file) => file.includes("opentelemetry"));
        console.log(JSON.stringify({ meta, loaded }));
      })();`;
    assert.deepEqual(await prints(bare, "use.cjs", code, "bare"), { meta: { tenant: "a" }, loaded: [] });
    const module = `import { connect } from "@runnerbean/client"; ${USE} console.log(JSON.stringify({ meta }));`;
    assert.deepEqual(await prints(bare, "use.mjs", module, "bare"), { meta: { tenant: "a" } });
  });

  for (const [index, format] of (["esm", "cjs"] as const).entries()) {
    it(`goes into a bundle, ${format}, with the package and without`, {
      skip: skipVariant(index, 2),
    }, async () => {
      const tube = `t${tubes++}`;
      const banner =
        'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);';
      const bundled = async (home: string, code: string): Promise<string> => {
        const { outputFiles, warnings } = await build({
          stdin: { contents: code, resolveDir: home },
          bundle: true,
          format,
          platform: "node",
          target: "node20",
          write: false,
          logLevel: "silent",
          // As esbuild's documentation has it for packages in CommonJS.
          ...(format === "esm" && { banner: { js: banner } }),
        });
        assert.deepEqual(warnings, []);
        return outputFiles[0]!.text;
      };
      const file = format === "esm" ? "bundle.mjs" : "bundle.cjs";
      const use = `import { connect } from "@runnerbean/client";
        (async () => {${USE} console.log(JSON.stringify({ meta })); })();`;
      assert.deepEqual(await prints(bare, file, await bundled(bare, use), tube), { meta: { tenant: "a" } });
      const code = await bundled(folder, asModule(`(async () => {${PRODUCER}})();`));
      // Where no package is installed, so that only what is in the bundle can be found.
      const { spans } = await prints(bare, file, code, `${tube}-traced`);
      assert.equal(named(spans, `put ${tube}-traced`).length, 4);
    });
  }
});
