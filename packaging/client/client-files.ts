// The files of the client's package: one CommonJS file, which ES modules import too, so that a
// program with both has each class once; and its types.

import { execFileSync } from "node:child_process";
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build, transform } from "esbuild";
import * as client from "../../src/client/client.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const SRC = join(ROOT, "src");
const CLIENT = join(SRC, "client");
const TSC = join(ROOT, "node_modules/typescript/bin/tsc");

const NAMES = Object.keys(client).join(", ");

async function program(): Promise<string> {
  const { outputFiles } = await build({
    absWorkingDir: ROOT,
    entryPoints: ["src/client/client.ts"],
    bundle: true,
    format: "cjs",
    platform: "node",
    target: "node20",
    // The program's own copy, if it has one.
    external: ["@opentelemetry/api"],
    // Only the sources are an ES module.
    define: { "import.meta.url": "undefined" },
    write: false,
  });
  // Names in the outermost scope stay, and so those of classes; identifiers within functions don't.
  const { code } = await transform(outputFiles[0]!.text, { minify: true });
  // The second pass drops this line, from which Node and others learn the names in CommonJS.
  return `${code}0 && (module.exports = { ${NAMES} });\n`;
}

/** The declarations describe CommonJS modules, which ES modules may import; the reverse fails. */
function declarations(): Map<string, string> {
  const folder = mkdtempSync(join(tmpdir(), "runnerbean-types-"));
  try {
    const compilerOptions = {
      noEmit: false,
      declaration: true,
      emitDeclarationOnly: true,
      rootDir: SRC,
      outDir: folder,
      typeRoots: [join(ROOT, "node_modules/@types")],
    };
    const settings = {
      extends: join(ROOT, "tsconfig.json"),
      compilerOptions,
      include: [CLIENT],
      exclude: [],
    };
    const file = join(folder, "tsconfig.json");
    writeFileSync(file, JSON.stringify(settings));
    execFileSync(process.execPath, [TSC, "-p", file], { stdio: ["ignore", "inherit", "inherit"] });
    // The package has one folder: what the client shares with the server is "schema-job" there.
    const all = globSync("*/*.d.ts", { cwd: folder })
      .sort()
      .map((path): [string, string] => [
        path
          .replace(/^client\//, "")
          .replace("/", "-")
          .replace(/\.d\.ts$/, ".d.cts"),
        readFileSync(join(folder, path), "utf8")
          .replace(/^(?: {4})+/gm, (blanks) => "\t".repeat(blanks.length / 4))
          .replace(/((?:from|import\() ?"\.)\.\/(schema)\/([\w-]+)\.ts"/g, '$1/$2-$3.cjs"')
          .replace(/((?:from|import\() ?"\.\/[\w-]+)\.ts"/g, '$1.cjs"'),
      ]);
    return reached("client.d.cts", new Map(all));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/**
 * Returns the declarations that a program can reach: others are of parts that no type names. Only
 * those of the first module, and of what it exports, are for readers and keep their comments; their
 * modules keep values besides types.
 */
function reached(first: string, all: ReadonlyMap<string, string>): Map<string, string> {
  const names = new Set([first]);
  for (const name of names)
    for (const [, module] of all.get(name)!.matchAll(/"\.\/([\w-]+)\.cjs"/g)) names.add(`${module}.d.cts`);
  const isRead = (name: string): boolean =>
    name === first || all.get(first)!.includes(`from "./${name.replace(/\.d\.cts$/, ".cjs")}"`);
  const typesOf = (text: string): string =>
    text
      .replace(/^\t*\/\*\*.*?\*\/\n/gms, "")
      .replace(/^export declare const (\w+): .*;\n/gm, (line, name) =>
        text.includes(`typeof ${name}`) ? line : "",
      );
  const shown = new Set(all.get(first)!.match(/\w+/g));
  const withoutOthers = (text: string): string =>
    text
      .replace(/^export (?:declare class|interface) (\w+).*?^}\n/gms, (declared, name) =>
        shown.has(name) ? declared : declared.replace(/^\t+\/\*\*.*?\*\/\n/gms, ""),
      )
      .replace(
        /^(?:\/\*\*(?:(?!\*\/).)*\*\/\n)?export declare (?:const|function) (\w+)\b[^\n]*;\n/gms,
        (declared, name) => (shown.has(name) || text.includes(`typeof ${name}`) ? declared : ""),
      );
  return new Map(
    [...all]
      .filter(([name]) => names.has(name))
      .map(([name, text]) => [name, isRead(name) ? withoutOthers(text) : typesOf(text)]),
  );
}

/** Returns the files by name. Same sources, same bytes. */
export async function clientFiles(): Promise<Map<string, string>> {
  return new Map([
    ["client.cjs", await program()],
    // Names instead of an asterisk: not every runtime finds the names of a CommonJS module.
    ["client.js", `export { ${NAMES} } from "./client.cjs";\n`],
    ["client.d.ts", 'export * from "./client.cjs";\n'],
    ...declarations(),
  ]);
}
