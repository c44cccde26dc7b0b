// Tests of reloads: what they name as changed, and as waiting for a restart.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { changedListeners, type ListenerOptions } from "../../../../src/server/options/listener-settings.ts";
import { type Options, parseOptions } from "../../../../src/server/options/options.ts";
import { SETTINGS } from "../../../../src/server/options/settings.ts";
import { type Reloaded, Reloader } from "../../../../src/server/reloading.ts";
import { temporaryFolder } from "../../../support/machine/temporary-folder.ts";
import { fileOf, neededBy, settingCases } from "../options/setting-cases.ts";

const CERT = ["--http-tls-cert", "package.json"];
const KEY = ["--http-tls-key", "package.json"];

function optionsOf(flags: readonly string[]): Options {
  const options = parseOptions(["--http", "127.0.0.1:0", ...flags], "runnerbean", {});
  assert.ok(!("exitCode" in options), JSON.stringify(options));
  return options;
}

/** Returns what needs a restart if a server with some flags reads others. */
async function needsRestart(before: readonly string[], after: readonly string[]): Promise<readonly string[]> {
  const reloader = new Reloader(
    optionsOf(before),
    () => optionsOf(after),
    () => () => [],
  );
  return (await reloader.reload()).needsRestart;
}

it("a reload that would begin or cease to require certificates of clients needs a restart", async () => {
  const tls = [...CERT, ...KEY];
  const authority = ["--http-tls-client-ca", "package.json"];
  assert.deepEqual(await needsRestart(tls, [...tls, ...authority]), ["http.tls.client-ca"]);
  assert.deepEqual(await needsRestart([...tls, ...authority], tls), ["http.tls.client-ca"]);
  const another = ["--http-tls-client-ca", "README.md"];
  assert.deepEqual(await needsRestart([...tls, ...authority], [...tls, ...another]), []);
});

it("a reload that would begin or cease to encrypt HTTP needs a restart", async () => {
  const tls = [...CERT, ...KEY];
  assert.deepEqual(await needsRestart([], tls), ["http.tls.cert"]);
  assert.deepEqual(await needsRestart(tls, []), ["http.tls.cert"]);
});

it("each reload names what needs a restart, until the file is as it was at the start", async () => {
  const tls = [...CERT, ...KEY];
  let flags: readonly string[] = tls;
  const reloader = new Reloader(
    optionsOf([]),
    () => optionsOf(flags),
    () => () => [],
  );
  const needed: (readonly string[])[] = [];
  for (flags of [tls, tls, []]) needed.push((await reloader.reload()).needsRestart);
  assert.deepEqual(needed, [["http.tls.cert"], ["http.tls.cert"], []]);
});

const folder = temporaryFolder({ after }, "reload");
const CONFIG = join(folder, "runnerbean.toml");
const TUBES = join(folder, "tubes");
writeFileSync(TUBES, "mails max-jobs=5\n");

function optionsIn(file: string): Options {
  writeFileSync(CONFIG, file);
  const options = parseOptions(["--config", CONFIG], "runnerbean", {});
  assert.ok(!("exitCode" in options), `${file}: ${JSON.stringify(options)}`);
  return options;
}

/** Returns what a reload names if the file was one, and is another. */
async function reloadOf(before: string, next: string): Promise<Reloaded> {
  const started = optionsIn(before);
  const reread = (): Options => optionsIn(next);
  return await new Reloader(started, reread, () => () => []).reload();
}

describe("a reload that finds another", () => {
  const cases = settingCases(TUBES);
  /** Others that then have another value, too. */
  const besides: Readonly<Record<string, readonly string[]>> = {
    "never-fsync": ["fsync"],
    "http.tls.cert": ["http.listen", "http.tls.key", "http.tls.min"],
    "http.tls.key": ["http.listen", "http.tls.cert", "http.tls.min"],
  };
  const restarts = ["http.tls.cert", "http.tls.client-ca", "listener"];

  for (const each of cases) {
    const { key } = each;
    it(`${key} names it, and tells whether it has taken effect`, async () => {
      const needed = neededBy(each, cases);
      const named = [key, ...(besides[key] ?? [])];
      // What can't be without the others comes and goes with them.
      const [before, next] = [
        fileOf(needed.filter((one) => !named.includes(one.key))),
        fileOf([...needed, each]),
      ];
      const rows = SETTINGS.filter((row) => named.includes(row.key));
      for (const [from, to] of [
        [before, next],
        [next, before],
      ] as const) {
        const { changed, needsRestart } = await reloadOf(from, to);
        assert.deepEqual(
          changed,
          rows.filter(({ reloads }) => reloads === true).map((row) => row.key),
        );
        assert.deepEqual(
          needsRestart,
          rows.filter((row) => row.reloads !== true || restarts.includes(row.key)).map((row) => row.key),
        );
      }
    });
  }
});

it("a reload that finds the same names nothing", async () => {
  const apart = ["never-fsync", "placement"];
  const all = fileOf(settingCases(TUBES).filter(({ key }) => !apart.includes(key)));
  assert.deepEqual(await reloadOf(all, all), { changed: [], needsRestart: [] });
});

describe("a listener", () => {
  const rows = {
    ...{ address: '"127.0.0.1:1"', auth: '"none"', allow: '["10.0.0.0/8"]' },
    ...{ "tls.cert": '"c"', "tls.key": '"k"', "tls.client-ca": '"a"', "tls.min": '"1.2"' },
  };
  const unixRows = { address: '"unix:/l"', mode: '"0600"', group: '"g"' };
  type Rows = Readonly<Record<string, string | undefined>>;
  const tableOf = (its: Rows): string =>
    `[[listener]]\n${Object.entries(its)
      .flatMap(([key, value]) => (value === undefined ? [] : `${key} = ${value}\n`))
      .join("")}`;
  const listenersIn = (...tables: string[]): readonly ListenerOptions[] =>
    optionsIn(tables.join("\n")).listeners;

  for (const [what, before, next] of [
    ["certificate", rows, { ...rows, "tls.cert": '"other"' }],
    ["key", rows, { ...rows, "tls.key": '"other"' }],
    ["authority", rows, { ...rows, "tls.client-ca": '"other"' }],
    ["least version", rows, { ...rows, "tls.min": '"1.3"' }],
    ["way to know clients", rows, { ...rows, auth: '"certificate"' }],
    ["list of networks", rows, { ...rows, allow: '["10.0.0.0/8", "::1"]' }],
    ["networks at all", { ...rows, allow: undefined }, rows],
  ] as readonly (readonly [string, Rows, Rows])[]) {
    it(`takes another ${what} from a reload, wherever it stands in the file`, async () => {
      const other = tableOf({ address: '"127.0.0.1:2"' });
      assert.deepEqual(await reloadOf(tableOf(before), tableOf(next)), {
        changed: ["listener"],
        needsRestart: [],
      });
      const open = listenersIn(other, tableOf(before));
      const found = listenersIn(tableOf(next), other);
      assert.deepEqual(changedListeners(open, found), [found[1], found[0]]);
    });
  }

  for (const [what, before, next] of [
    ["address", rows, { ...rows, address: '"127.0.0.1:3"' }],
    ["path", unixRows, { ...unixRows, address: '"unix:/other"' }],
    ["mode", unixRows, { ...unixRows, mode: '"0660"' }],
    ["group", unixRows, { ...unixRows, group: '"other"' }],
    ["TLS", { address: rows.address }, { address: rows.address, "tls.cert": '"c"', "tls.key": '"k"' }],
  ] as readonly (readonly [string, Rows, Rows])[]) {
    it(`keeps its ${what}, and all that goes with it, until a restart`, async () => {
      const withMore = { ...next, allow: '["::1"]' };
      for (const to of [next, withMore]) {
        assert.deepEqual((await reloadOf(tableOf(before), tableOf(to))).needsRestart, ["listener"]);
        const open = listenersIn(tableOf(before));
        assert.deepEqual(changedListeners(open, listenersIn(tableOf(to))), open);
      }
    });
  }
});
