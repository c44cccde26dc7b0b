// Checks that no file exports what no other file imports.

import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { it } from "node:test";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** What files export for others than our own. */
const PUBLIC: readonly string[] = [
  // Users of the package.
  "src/client/client.ts",
  // The bundle and the page of the simulator have them in the place of other modules.
  "packaging/bundle/replacements/",
  "test/proof/watch/browser/",
];

interface Source {
  readonly path: string;
  readonly text: string;
}

const DECLARED =
  /^export (?:declare )?(?:abstract class|async function\*?|function\*?|class|const|let|interface|type|enum) (?:(\w+)|[[{]([^\]}=]*)[\]}])/gm;
const LISTED = /^export (?:type )?\{([^}]*)\}(?: from "(\.[^"]*)")?/gm;
const IMPORTED = /^import (?:type )?(?:\w+, )?\{([^}]*)\} from "(\.[^"]*)"/gm;
const IMPORTED_WHOLE = /(?:^import \* as \w+ from |\bimport\(|^export \* from )"(\.[^"]*)"/gm;

/** Names of a list of imports or exports, in the file that declares them and in the other one. */
function namesIn(list: string): { readonly name: string; readonly as: string }[] {
  const texts = list.split(",").map((text) => text.trim().replace(/^type /, ""));
  return texts
    .filter((text) => text !== "")
    .map((text) => {
      const [name = "", as = name] = text.split(" as ");
      return { name, as };
    });
}

function exportsOf({ text }: Source): Set<string> {
  const names = new Set<string>();
  for (const [, name, several = ""] of text.matchAll(DECLARED))
    if (name !== undefined) names.add(name);
    else for (const each of namesIn(several)) names.add(each.name.split(": ").at(-1)!);
  for (const [, list = ""] of text.matchAll(LISTED)) for (const { as } of namesIn(list)) names.add(as);
  return names;
}

/** Returns each export that no other file imports, behind its path. */
function unusedExports(files: readonly Source[]): string[] {
  /** Each with its path. */
  const imported = new Set<string>();
  /** Folders whose files may use any export of a file: one of them has imported it as a whole. */
  const takers = new Map<string, string[]>();
  for (const { path, text } of files) {
    const at = (specifier: string): string => normalize(join(dirname(path), specifier));
    for (const expression of [IMPORTED, LISTED])
      for (const [, list = "", specifier] of text.matchAll(expression))
        if (specifier !== undefined)
          for (const { name } of namesIn(list)) imported.add(`${at(specifier)} ${name}`);
    for (const [, specifier = ""] of text.matchAll(IMPORTED_WHOLE))
      takers.set(at(specifier), [...(takers.get(at(specifier)) ?? []), path.split("/", 2).join("/")]);
  }
  const isTaken = (path: string, name: string): boolean => {
    const word = new RegExp(`\\b${name}\\b`);
    const isTaker = (folder: string): boolean =>
      files.some((each) => each.path !== path && each.path.startsWith(folder) && word.test(each.text));
    return (takers.get(path) ?? []).some(isTaker);
  };
  return files.flatMap((file) =>
    [...exportsOf(file)]
      .filter((name) => !imported.has(`${file.path} ${name}`) && !isTaken(file.path, name))
      .map((name) => `${file.path} ${name}`),
  );
}

it("each export has an importer", () => {
  const paths = globSync(
    ["src", "test", "bench", "packaging"].map((folder) => `${folder}/**/*.ts`),
    {
      cwd: ROOT,
      exclude: (name) => name === "node_modules",
    },
  );
  const files = paths.map((path) => ({ path, text: readFileSync(join(ROOT, path), "utf8") }));
  assert.ok(files.length > 1000, "the sources are found");
  const isPublic = (each: string): boolean => PUBLIC.some((place) => each.startsWith(place));
  // Tests export nothing, but contain sources that do.
  const unused = unusedExports(files).filter((each) => !isPublic(each) && !each.includes(".test.ts "));
  assert.deepEqual(unused, [], "delete the word `export`, or what nothing uses any more");
});

it("finds exports without an importer", () => {
  const used = "export const a = 1;\nexport interface B {}\nexport function c() {}\nexport { d as e };\n";
  const of = (path: string, text: string): string[] =>
    unusedExports([
      { path: "src/room/used.ts", text: used },
      { path, text },
    ]);
  assert.deepEqual(of("src/room/user.ts", 'import { a } from "./other.ts";'), [
    ...["src/room/used.ts a", "src/room/used.ts B", "src/room/used.ts c", "src/room/used.ts e"],
  ]);
  assert.deepEqual(of("src/other/user.ts", 'import { a, type B, c as x } from "../room/used.ts";'), [
    "src/room/used.ts e",
  ]);
  assert.deepEqual(
    of("src/room/user.ts", 'import type {\n  B,\n} from "./used.ts";\nexport { a, c, e } from "./used.ts";'),
    [...["src/room/user.ts a", "src/room/user.ts c", "src/room/user.ts e"]],
  );
  assert.deepEqual(of("src/room/user.ts", 'const { a, B, c } = await import("./used.ts");'), [
    "src/room/used.ts e",
  ]);
});
