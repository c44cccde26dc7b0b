// Files of the dashboard. They are read at startup, before the process drops its privileges, and
// compressed when first requested, because most servers never show their dashboard.
//
// There is no build step: this file strips the types of the modules, at the start of a checkout's
// server and when the bundle is built. Imports of packages become relative ones, since browsers
// don't resolve node_modules.

import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { createRequire, stripTypeScriptTypes } from "node:module";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

export interface Asset {
  readonly type: string;
  readonly bytes: Buffer;
  readonly gzipped: Buffer;
  readonly etag: string;
}

const JAVASCRIPT = "text/javascript; charset=utf-8";
const HERE = fileURLToPath(new URL(".", import.meta.url));
const DASHBOARD = join(HERE, "../../dashboard/");

/** Modules, from src/dashboard. Each is served under its base name. */
const MODULES = [
  ...["app", "live", "parts/format", "pages/pages", "parts/elements", "parts/request"],
  // Loaded on demand.
  ...[
    "pages/tubes-page",
    "pages/tube-page",
    "parts/failures",
    "pages/job-page",
    "parts/lists",
    "parts/dialog",
    "../schema/names",
    "../schema/setting",
    "../schema/tube",
    "parts/setting-fields",
    "parts/settings-dialog",
    "parts/bulk",
    "pages/job-body",
    "pages/body-forms",
    "pages/server-page",
    "pages/audit-page",
    "parts/charts",
    "pages/connections-page",
    "pages/schedule-page",
    "pages/batch-page",
    "parts/batch-jobs",
    "parts/flow-actions",
    "parts/actions",
    "parts/put-job",
    "keys",
  ],
] as const;
interface Packaged {
  readonly from: string;
  readonly name: string;
  readonly path: string;
  /** Text to append that turns a plain script into a module. */
  readonly end?: string;
}

/** Files of packages. An import of `from` is served as `name`. */
export const PACKAGED: readonly Packaged[] = [
  { from: "lit-html", name: "lit-html.js", path: "lit-html/lit-html.js" },
  { from: "lit-html/directives/repeat.js", name: "repeat.js", path: "lit-html/directives/repeat.js" },
  { from: "lit-html/directive.js", name: "directive.js", path: "lit-html/directive.js" },
  {
    from: "lit-html/directive-helpers.js",
    name: "directive-helpers.js",
    path: "lit-html/directive-helpers.js",
  },
  { from: "uplot", name: "uplot.js", path: "uplot/dist/uPlot.iife.min.js", end: "export default uPlot;" },
];

/** Later ones take precedence over earlier ones. */
const STYLES = ["frame", "contents", "controls", "narrow"];

/** Returns the assets by path below `assets/`; `index.html` is the page itself. */
export function loadAssets(): ReadonlyMap<string, () => Asset> {
  const assets = new Map<string, () => Asset>();
  const add = (name: string, type: string, textOf: () => string): void => {
    let asset: Asset | undefined;
    assets.set(name, () => (asset ??= assetOf(type, textOf())));
  };
  const page = own("index.html");
  add("index.html", "text/html; charset=utf-8", () => page);
  const style = [
    packaged("uplot/dist/uPlot.min.css"),
    ...STYLES.map((name) => own(`styles/${name}.css`)),
  ].join("\n");
  add("style.css", "text/css; charset=utf-8", () => style);
  for (const path of MODULES) {
    const source = own(`${path}.ts`);
    add(`${basename(path)}.js`, JAVASCRIPT, () =>
      withRelativeImports(stripTypeScriptTypes(source, { mode: "strip" })),
    );
  }
  for (const { name, path, end = "" } of PACKAGED) {
    const source = packaged(path);
    add(name, JAVASCRIPT, () => `${withRelativeImports(source)}\n${end}`);
  }
  return assets;
}

function assetOf(type: string, text: string): Asset {
  const bytes = Buffer.from(text);
  const etag = `"${createHash("sha256").update(bytes).digest("base64url").slice(0, 22)}"`;
  return { type, bytes, gzipped: gzipSync(bytes, { level: 9 }), etag };
}

function own(name: string): string {
  return readFileSync(join(DASHBOARD, name), "utf8");
}

function packaged(path: string): string {
  // Searched by path, since packages don't export all of these files.
  const folders = createRequire(import.meta.url).resolve.paths(path) ?? [];
  const folder = folders.find((each) => existsSync(join(each, path)));
  if (folder === undefined)
    throw new Error(`The dashboard needs ${path}: install the packages again (npm ci)`);
  return readFileSync(join(folder, path), "utf8");
}

function withRelativeImports(text: string): string {
  return text
    .replace(/\/\/# sourceMappingURL=.*\s*$/, "")
    .replace(
      /(\bfrom\s*|\bimport\s*\(?\s*)(["'])([^"'\s]+)\2/g,
      (whole, before: string, _quote, from: string) => {
        const name = nameOf(from);
        return name === undefined ? whole : `${before}"./${name}"`;
      },
    );
}

function nameOf(from: string): string | undefined {
  const packagedFile = PACKAGED.find((each) => each.from === from);
  if (packagedFile !== undefined) return packagedFile.name;
  // "./live.ts" in our modules; "../lit-html.js" in those of lit-html.
  const file = /^\.{1,2}\/(.+)\.(?:ts|js)$/.exec(from)?.[1];
  return file === undefined ? undefined : `${file.split("/").at(-1)}.js`;
}
