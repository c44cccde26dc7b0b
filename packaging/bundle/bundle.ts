// The bundle: server, threads, tools and dashboard as a few files. Each part holds the code of one
// kind of thread, so that no thread reads code of others. Same sources, same bytes.

import { basename, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { type BuildOptions, build, type Plugin } from "esbuild";
import { loadAssets, PACKAGED } from "../../src/http/app/dashboard-assets.ts";
import { type BundledPackage, licenceReport, packagesOf } from "../licences/bundled-packages.ts";
import { compiledCode } from "./compiled-code.ts";
import { PARTS } from "./parts.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const HERE = "packaging/bundle";
/** Where esbuild would write the parts, if it wrote. */
const OUT = join(ROOT, "parts");

/** Entry point of each part. Threads are named after their rooms. */
const ENTRIES: Readonly<Record<string, string>> = {
  [PARTS.main]: `${HERE}/main.ts`,
  server: "src/server/server.ts",
  tools: "src/server/tools/subcommands.ts",
  threads: "src/threads/thread.ts",
  binlog: "src/binlog/thread.ts",
  replica: "src/replica/thread.ts",
  http: "src/http/thread.ts",
  pretty: "node_modules/pino-pretty/index.js",
  postgres: "node_modules/pg/esm/index.mjs",
  [PARTS.scanPool]: `${HERE}/scan-thread.ts`,
};

/** Modules that become separate parts because they are loaded on demand. */
const ON_DEMAND: Readonly<Record<string, string>> = Object.fromEntries(
  ["server", "tools", "pretty", "postgres"].map((part) => [join(ROOT, ENTRIES[part]!), part]),
);

/** Modules that a bundle replaces. */
const REPLACED: Readonly<Record<string, string>> = {
  "src/threads/new-thread.ts": "new-thread.ts",
  "src/binlog/disk/readable-code.ts": "readable-code.ts",
  "src/binlog/recovery/scan-worker-file.ts": "scan-worker-file.ts",
  "src/http/app/dashboard-assets.ts": "dashboard-assets.ts",
  "src/server/lifecycle/malloc-threshold.ts": "malloc-threshold.ts",
};

/**
 * Modules that packages load and nothing here uses: YAML of OpenAPI documents, traces in default
 * metrics, and fastify's own validation, serialization, log and simulated requests.
 */
const UNUSED: ReadonlySet<string> = new Set(["yaml", "@opentelemetry/api"]);
const UNUSED_IN_FASTIFY: ReadonlySet<string> = new Set([
  "@fastify/ajv-compiler",
  "@fastify/fast-json-stringify-compiler",
  "light-my-request",
  "pino",
]);

const isUnused = (path: string, importer: string): boolean =>
  UNUSED.has(path) || (UNUSED_IN_FASTIFY.has(path) && importer.includes("/node_modules/fastify/"));

const escaped = (text: string): string => text.replaceAll(/[.\\/]/g, "\\$&");

/**
 * Imports that the plugin must look at, by the end of what is written there. esbuild resolves all
 * others without asking: a question for each import takes as long as all the rest.
 */
const LOOKED_AT = new RegExp(
  `(?:^|/)(?:${[
    ...[...UNUSED, ...UNUSED_IN_FASTIFY, "worker_threads", "node:worker_threads", "pino-pretty", "pg"],
    ...[...Object.values(ENTRIES), ...Object.keys(REPLACED)].map((path) => basename(path)),
  ]
    .map(escaped)
    .join("|")})$`,
);

const linked: Plugin = {
  name: "parts",
  setup: ({ onResolve, resolve }) => {
    onResolve({ filter: /^runnerbean:/ }, ({ path }) => ({ path, external: true }));
    onResolve({ filter: LOOKED_AT }, async ({ path, importer, kind, resolveDir, pluginData }) => {
      if (pluginData === "resolved" || kind === "entry-point") return undefined;
      if (isUnused(path, importer)) return { path: join(ROOT, HERE, "replacements/nothing.ts") };
      if (/^(node:)?worker_threads$/.test(path) && importer.includes("/node_modules/piscina/dist/"))
        return { path: join(ROOT, HERE, "replacements/piscina-threads.ts") };
      const found = await resolve(path, { importer, kind, resolveDir, pluginData: "resolved" });
      const part = kind === "dynamic-import" ? ON_DEMAND[found.path] : undefined;
      if (part !== undefined) return { path: `runnerbean:${part}`, external: true };
      const replacement = REPLACED[relative(ROOT, found.path)];
      // Without a result, esbuild resolves again, and finds the package.json beside the file.
      return replacement === undefined ? undefined : { path: join(ROOT, HERE, "replacements", replacement) };
    });
  },
};

/** Keeps the names of functions, for stack traces. */
const COMMON: BuildOptions = {
  absWorkingDir: ROOT,
  bundle: true,
  format: "cjs",
  platform: "node",
  target: "esnext",
  // The source stays a string with one byte per character.
  charset: "ascii",
  legalComments: "none",
  minifySyntax: true,
  minifyWhitespace: true,
  write: false,
  logLevel: "warning",
};

interface Parts {
  /** By name. */
  readonly sources: ReadonlyMap<string, string>;
  /** Paths of their sources, from the root. */
  readonly inputs: readonly string[];
}

/** All in one build, which reads each module once for all parts. */
async function buildParts(): Promise<Parts> {
  const { outputFiles, metafile } = await build({
    ...COMMON,
    entryPoints: Object.fromEntries(Object.entries(ENTRIES).map(([name, path]) => [name, join(ROOT, path)])),
    outdir: OUT,
    // A part loads other parts through `require`.
    supported: { "dynamic-import": false },
    plugins: [linked],
    // Native accelerators of packages, which also work without them.
    external: ["msgpackr-extract", "@napi-rs/nice"],
    metafile: true,
  });
  const textOf = new Map(outputFiles!.map(({ path, text }) => [path, text]));
  const sources = Object.keys(ENTRIES).map((name): [string, string] => {
    const text = textOf.get(join(OUT, `${name}.js`));
    if (text === undefined) throw new Error(`esbuild made no ${name}.js`);
    return [name, `(function(module,exports,require,__filename,__dirname){${text}})`];
  });
  return { sources: new Map(sources), inputs: Object.keys(metafile!.inputs) };
}

async function loader(): Promise<string> {
  const { outputFiles } = await build({ ...COMMON, entryPoints: [join(ROOT, HERE, "loader.ts")] });
  return outputFiles![0]!.text;
}

/** Returns the third-party packages in the bundle, including the dashboard's. */
export async function bundledPackages(): Promise<readonly BundledPackage[]> {
  return packagesIn(await buildParts());
}

const packagesIn = ({ inputs }: Parts): readonly BundledPackage[] =>
  packagesOf(ROOT, [...inputs, ...PACKAGED.map(({ path }) => `node_modules/${path}`)]);

/** Returns the files of the bundle by path. `runnerbean.cjs` is the one to start. */
export async function bundledFiles(): Promise<Map<string, Uint8Array>> {
  const files = new Map<string, Uint8Array>();
  files.set("runnerbean.cjs", Buffer.from(await loader()));
  const parts = await buildParts();
  for (const [name, source] of parts.sources) files.set(`parts/${name}.js`, Buffer.from(source));
  for (const [path, code] of compiledCode(files)) files.set(path, code);
  const list: object[] = [];
  for (const [name, assetOf] of loadAssets()) {
    const { type, etag, bytes, gzipped } = assetOf();
    list.push({ name, type, etag });
    files.set(`dashboard/${name}`, bytes);
    files.set(`dashboard/${name}.gz`, gzipped);
  }
  files.set("dashboard/assets.json", Buffer.from(JSON.stringify(list)));
  files.set("licences.txt", Buffer.from(licenceReport(packagesIn(parts))));
  return new Map([...files].sort(([one], [other]) => (one < other ? -1 : 1)));
}
