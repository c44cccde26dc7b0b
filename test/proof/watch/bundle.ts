// Bundle of the page: the simulator of test/simulation as it is, with browser replacements for what
// it imports of Node at its edge.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { type BuildOptions, build, type Plugin } from "esbuild";

const file = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

/** Modules of Node, and packages for its threads, by the file that replaces each. */
const REPLACED: Readonly<Record<string, string>> = {
  "node:assert/strict": file("browser/assert.ts"),
  "node:zlib": file("browser/zlib.ts"),
  "node:os": file("browser/nothing.ts"),
  "node:perf_hooks": file("browser/nothing.ts"),
  piscina: file("browser/nothing.ts"),
};

const edge: Plugin = {
  name: "browser edge",
  setup: ({ onResolve }) => {
    onResolve({ filter: /^(node:|piscina$)/ }, ({ path, importer }) => {
      const replacement = REPLACED[path];
      if (replacement !== undefined) return { path: replacement };
      return {
        errors: [{ text: `${importer} imports ${path}: add a replacement to test/proof/watch/browser` }],
      };
    });
  },
};

const SHARED: BuildOptions = {
  bundle: true,
  format: "esm",
  platform: "browser",
  target: "es2024",
  write: false,
  plugins: [edge],
  legalComments: "none",
};

async function built(entry: string, options: BuildOptions = {}): Promise<string> {
  const { outputFiles } = await build({ ...SHARED, ...options, entryPoints: [file(entry)] });
  return outputFiles![0]!.text;
}

export interface Asset {
  readonly type: string;
  readonly text: string;
}

/** The files of the page, by their paths. */
export async function pageAssets(): Promise<ReadonlyMap<string, Asset>> {
  const [worker, page] = await Promise.all([
    built("worker.ts", { inject: [file("browser/globals.ts")], minifySyntax: true, minifyWhitespace: true }),
    built("page/page.ts"),
  ]);
  const read = (name: string): string => readFileSync(file(name), "utf8");
  return new Map([
    ["/", { type: "text/html; charset=utf-8", text: read("page/index.html") }],
    ["/style.css", { type: "text/css", text: read("page/style.css") }],
    ["/page.js", { type: "text/javascript", text: page }],
    ["/worker.js", { type: "text/javascript", text: worker }],
  ]);
}
