// Tests of reloads: what they name as changed, and as waiting for a restart.

import assert from "node:assert/strict";
import { it } from "node:test";
import { Reloader } from "../../../../src/server/lifecycle/reload.ts";
import { type Options, parseOptions } from "../../../../src/server/options/options.ts";

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
    () => () => {},
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
    () => () => {},
  );
  const needed: (readonly string[])[] = [];
  for (flags of [tls, tls, []]) needed.push((await reloader.reload()).needsRestart);
  assert.deepEqual(needed, [["http.tls.cert"], ["http.tls.cert"], []]);
});
