// Tests with logs that servers of format versions 2 and 3 have written and were killed over: the
// tools find in them what those servers' own `binlog dump` found, also once the log is rewritten.

import assert from "node:assert/strict";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { it } from "node:test";
import { gunzipSync } from "node:zlib";
import { decodeHeader, FORMAT_VERSION, HEADER_BYTES } from "../../src/binlog/segments/segment-format.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { runTool } from "../support/server/tool.ts";

interface OldLog {
  /** Gzip in Base64, by name, without the zeros that the file ends with. */
  files: Record<string, string>;
  /** What the server that wrote it dumped, in the same form. */
  dump: string;
}

// By version: 2.6.0, and a server between 2.6.0 and its successor. Jobs in all states, with keys,
// groups, settings, moves, deaths, bodies in pieces; in version 3 with failures and context, too.
const LOGS = JSON.parse(
  readFileSync(new URL("sample/versions-2-and-3.json", import.meta.url), "utf8"),
) as Record<string, OldLog>;

/** Room behind the last record, as in a segment that is still written. */
const ZEROS = Buffer.alloc(4096);

const unpacked = (text: string): Buffer => gunzipSync(Buffer.from(text, "base64"));

function versions(folder: string): number[] {
  const segments = readdirSync(folder).filter((name) => name.endsWith(".log"));
  return segments.map((name) => {
    const header = decodeHeader(readFileSync(join(folder, name)).subarray(0, HEADER_BYTES));
    return "problem" in header ? 0 : header.version;
  });
}

async function tool(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await runTool(["binlog", ...args]);
  assert.equal(code, 0, stderr);
  return stdout;
}

for (const [version, { files, dump }] of Object.entries(LOGS))
  it(`a log of version ${version} has all that its server left, also in the present version`, async (t) => {
    const folder = temporaryFolder(t, `version-${version}`);
    for (const [name, content] of Object.entries(files))
      writeFileSync(join(folder, name), Buffer.concat([unpacked(content), ZEROS]));
    assert.ok(versions(folder).every((each) => each === Number(version)));
    const expected = unpacked(dump).toString();
    assert.equal(await tool("dump", folder), expected);
    await tool("compact", folder);
    assert.ok(versions(folder).every((each) => each === FORMAT_VERSION));
    assert.deepEqual(jobsOf(await tool("dump", folder)), jobsOf(expected));
  });

/** The settings and jobs of a dump; its first and last line have ids that were lent since. */
function jobsOf(dump: string): string[] {
  return dump.trimEnd().split("\n").slice(1, -1);
}
