// Tests of `npm run mutate`: which mutants a source has, that a test process gets the mutant and
// comes to an end, which test files execute a line, and that the kept list has no stale lines.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { after, describe, it } from "node:test";
import { pathToFileURL } from "node:url";
import { API } from "typescript/unstable/sync";
import { temporaryFolder } from "../../support/machine/temporary-folder.ts";
import { coverageOf, executes, ROOT, runChild } from "./covered.ts";
import { codeOf, KEPT } from "./kept.ts";
import { applied, type Mutant, mutantsOf } from "./mutants.ts";
import { ROOMS, testsOf } from "./rooms.ts";

const LIMIT = { cpuMs: 120_000, ms: 600_000 };
const SOURCE = `// Numbers.
const SIZE = 8;
interface Old { readonly a: 1 }
export function older(a: number, b: number): boolean {
  assert(a < b, "in order");
  if (a === b) throw new Error("the same + more");
  log(a);
  return a < b && !done;
}
`;

describe("mutants", () => {
  const folder = temporaryFolder({ after }, "mutants");

  it("are small changes of what a test can see", () => {
    writeFileSync(join(folder, "numbers.ts"), SOURCE);
    writeFileSync(join(folder, "tsconfig.json"), '{ "include": ["numbers.ts"] }');
    const api = new API({ cwd: folder });
    const tsconfig = join(folder, "tsconfig.json");
    const { program } = api.updateSnapshot({ openProjects: [tsconfig] }).getProject(tsconfig)!;
    const mutants = mutantsOf("numbers.ts", program.getSourceFile(join(folder, "numbers.ts"))!);
    api.close();
    const changed = mutants.map((mutant) => {
      const lines = applied(SOURCE, mutant).split("\n");
      const line = lines.find((text, index) => text !== SOURCE.split("\n")[index])!;
      return `${mutant.line}: ${line.trim()}`;
    });
    assert.deepEqual(changed.sort(), [
      '6: if (a !== b) throw new Error("the same + more");',
      '6: if (false) throw new Error("the same + more");',
      '6: if (true) throw new Error("the same + more");',
      "7: ;",
      "8: return a < b && (done);",
      "8: return a < b || !done;",
      "8: return a <= b && !done;",
    ]);
  });

  it("are what the tests of a process import", async () => {
    const source = join(ROOT, "src/ring/ring.ts");
    const tests = ["test/unit/ring/ring.test.ts"];
    assert.equal((await runChild(tests, {}, LIMIT)).code, 0);
    const text = join(folder, "mutant.ts");
    writeFileSync(
      text,
      readFileSync(source, "utf8").replace("(capacity - 1)) !== 0", "(capacity - 1)) === 0"),
    );
    const env = { MUTANT_URL: pathToFileURL(source).href, MUTANT_TEXT: text };
    const { code, said } = await runChild(tests, env, LIMIT);
    assert.equal(code, 1);
    assert.match(said, /^FAILED ring\.test\.ts: /m);
    const seeds = await runChild(["test/proof/mutation/seeds.ts"], env, LIMIT);
    assert.equal(seeds.code, 1, "the simulators get it, too");
  });

  it("are what the workers of a test import", async () => {
    const source = join(ROOT, "src/ring/doorbell.ts");
    const text = join(folder, "doorbell.ts");
    const wait = "Atomics.wait(this.#words, this.#word, ASLEEP, timeoutMs);";
    writeFileSync(text, readFileSync(source, "utf8").replace(wait, ""));
    const env = { MUTANT_URL: pathToFileURL(source).href, MUTANT_TEXT: text };
    const { code, said } = await runChild(["test/unit/ring/doorbell.test.ts"], env, LIMIT);
    assert.equal(code, 1);
    assert.match(said, /blocks elsewhere/, "a worker sleeps in this test only");
  });

  it("meet the tests that execute them", async () => {
    const file = await coverageOf("test/unit/ring/ring.test.ts", "src/ring/", LIMIT);
    const path = join(ROOT, "src/ring/ring.ts");
    const text = readFileSync(path, "utf8");
    assert.ok(executes(file!, pathToFileURL(path).href, text.indexOf("capacity >> 2")));
    assert.ok(!executes(file!, pathToFileURL(join(ROOT, "src/ring/shared-words.ts")).href, 2000));
  });

  it("meet the tests of which one process executes them, whatever the others do", () => {
    const url = "file:///a.ts";
    const whole = { startOffset: 0, endOffset: 100, count: 1 };
    const unused = { startOffset: 10, endOffset: 20, count: 0 };
    const processes = [[whole], [whole, unused], [{ ...whole, count: 0 }]];
    const file = { path: "a.test.ts", cpuMs: 1, ms: 1, covered: new Map([[url, processes]]) };
    assert.ok(executes(file, url, 15));
    assert.ok(!executes({ ...file, covered: new Map([[url, processes.slice(1)]]) }, url, 15));
  });

  it("end although their tests never would", async () => {
    const play = async (name: string, body: string): Promise<unknown> => {
      const file = join(folder, `${name}.ts`);
      writeFileSync(file, `import { it } from "node:test";\nit("${name}", () => ${body});\n`);
      return (await runChild([relative(ROOT, file)], {}, { cpuMs: 1000, ms: LIMIT.ms })).code;
    };
    assert.equal(await play("computes", "{ for (;;); }"), "timeout");
    assert.equal(await play("waits", "new Promise(() => undefined)"), "timeout");
    assert.equal(await play("ends", "undefined"), 0);
    assert.equal(await play("fails", '{ throw new Error("no"); }'), 1);
  });

  it("have tests in every room", () => {
    for (const room of ROOMS) assert.ok(testsOf(room, "room").length > 0, room);
  });

  it("that stay alive have a reason, and are in the sources", () => {
    const api = new API({ cwd: ROOT });
    const tsconfig = join(ROOT, "tsconfig.json");
    const { program } = api.updateSnapshot({ openProjects: [tsconfig] }).getProject(tsconfig)!;
    const files = [...new Set(KEPT.map(({ file }) => `src/${file}`))];
    const known = files.flatMap((file): Mutant[] =>
      mutantsOf(file, program.getSourceFile(join(ROOT, file))!),
    );
    api.close();
    const places = new Set(known.map((mutant) => `${mutant.file} ${codeOf(mutant)} ${mutant.what}`));
    for (const { file, code, what, why } of KEPT) {
      assert.ok(why.length > 10, file);
      for (const each of what)
        assert.ok(places.has(`src/${file} ${code} ${each}`), `${file}: ${code}: ${each}`);
    }
  });
});
