// The server bundled into a few files, which `npm test` starts. From the sources, half of a start
// is reading some hundred modules, in each thread anew.

import { createHash } from "node:crypto";
import {
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build, type OutputFile, type Plugin } from "esbuild";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
/**
 * Below the checkout, since what is not bundled is looked for in its node_modules; git knows
 * nothing of it.
 */
const BUNDLES = join(ROOT, ".tmp", "server");
/** Longer than any run of the tests. */
const KEPT_MS = 24 * 3_600_000;

/**
 * What a process or a thread starts with. Each is bundled by itself, into the folder that it is in,
 * where the others look for it.
 */
const ENTRIES = [
  "src/server/main.ts",
  ...globSync("src/*/thread.ts", { cwd: ROOT }),
  "src/binlog/recovery/scan-worker.ts",
];
/** They look for their own files, or are loaded by few. */
const UNBUNDLED = ["piscina", "pino-pretty", "@nats-io/*"];
/** They start other threads from files beside them: in a bundle those of the bundle. */
const START_THREADS = [
  "src/threads/start-threads.ts",
  "src/binlog/recovery/scan-log.ts",
  "src/binlog/thread.ts",
];

/** CommonJS packages ask for Node's modules in this way. */
const REQUIRE =
  'import { createRequire as requireOf } from "node:module"; const require = requireOf(import.meta.url);';

/**
 * All others look for what is beside the sources: the dashboard's files, the folder of compiled
 * code.
 */
const ownUrls: Plugin = {
  name: "own URLs",
  setup: ({ onLoad }) => {
    onLoad({ filter: /\/src\/.*\.ts$/ }, ({ path }) => {
      const text = readFileSync(path, "utf8");
      const isOneOfThem = START_THREADS.some((file) => path === join(ROOT, file));
      const url = JSON.stringify(pathToFileURL(path).href);
      return { contents: isOneOfThem ? text : text.replaceAll("import.meta.url", url), loader: "ts" };
    });
  },
};

/**
 * Bundles the sources as they are now; returns the file to start, whose name is the same for the
 * same sources.
 */
export async function bundleServer(): Promise<string> {
  const files = (await Promise.all(ENTRIES.map(bundled))).flat();
  const hash = createHash("sha256");
  for (const { path, contents } of files) hash.update(path).update(contents);
  const folder = join(BUNDLES, hash.digest("hex").slice(0, 16));
  if (!existsSync(folder)) {
    const unfinished = `${folder}.${process.pid}`;
    for (const { path, contents } of files) {
      const file = join(unfinished, path);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, contents);
    }
    keepAs(folder, unfinished);
    removeOld();
  }
  return join(folder, "server", "main.js");
}

/** Whole or not at all: another run may start servers from it, or have made the same. */
function keepAs(folder: string, unfinished: string): void {
  try {
    renameSync(unfinished, folder);
  } catch (error) {
    rmSync(unfinished, { recursive: true });
    if (!existsSync(folder)) throw error;
  }
}

function removeOld(): void {
  for (const name of readdirSync(BUNDLES)) {
    const folder = join(BUNDLES, name);
    if (Date.now() - statSync(folder).mtimeMs > KEPT_MS) rmSync(folder, { recursive: true, force: true });
  }
}

interface BundledFile {
  /** Below the folder of the bundle. */
  readonly path: string;
  readonly contents: Uint8Array;
}

async function bundled(entry: string): Promise<BundledFile[]> {
  const room = entry.split("/")[1]!;
  const { outputFiles } = await build({
    entryPoints: [join(ROOT, entry)],
    absWorkingDir: ROOT,
    outdir: join(BUNDLES, room),
    bundle: true,
    // What is imported later stays apart.
    splitting: true,
    chunkNames: `${entry.split("/").at(-1)!.replace(".ts", "")}-[hash]`,
    format: "esm",
    platform: "node",
    target: "esnext",
    banner: { js: REQUIRE },
    external: UNBUNDLED,
    plugins: [ownUrls],
    write: false,
    logLevel: "warning",
  });
  return outputFiles.map((file: OutputFile) => ({
    path: `${room}/${file.path.split("/").at(-1)}`,
    contents: file.contents,
  }));
}
