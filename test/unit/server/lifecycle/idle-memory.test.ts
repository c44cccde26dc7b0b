// Tests of when an idle server gives memory back, and of which.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { IdleMemory, unchangedFiles } from "../../../../src/server/lifecycle/idle-memory.ts";

describe("IdleMemory", () => {
  /** Looks at these numbers of messages. Returns at which looks memory was given. */
  function givenAt(...messages: number[]): number[] {
    const given: number[] = [];
    let at = 0;
    const idle = new IdleMemory(() => given.push(at));
    for (at = 0; at < messages.length; at++) idle.look(messages[at]!);
    return given;
  }

  it("gives once after the start, also with a few commands under way", () => {
    assert.deepEqual(givenAt(0, 0, 0), [0]);
    assert.deepEqual(givenAt(10, 500, 1400, 1401), [0]);
  });

  it("gives nothing as long as the server is busy, and once after that", () => {
    assert.deepEqual(givenAt(1000, 2000, 3000, 3999, 3999), [3]);
    assert.deepEqual(givenAt(0, 0, 5000, 9000, 9100, 9100, 20_000, 20_000), [0, 4, 7]);
  });
});

describe("unchangedFiles", () => {
  const mapping = (range: string, permissions: string, path: string, anonymous: number): string =>
    `${range} ${permissions} 0042e000 fe:00 131                  ${path}\n` +
    `Size:              45420 kB\nRss:               25368 kB\nPrivate_Dirty:         0 kB\n` +
    `Anonymous:      ${`${anonymous}`.padStart(8)} kB\nTHPeligible:           0\nVmFlags: rd ex mr mw me\n`;

  const startsOf = (...mappings: string[]): string[] =>
    unchangedFiles(mappings.join("")).map(({ start, end }) => `${start.toString(16)}-${end.toString(16)}`);

  it("has code and constants of files", () => {
    const code = mapping("0082e000-03489000", "r-xp", "/usr/bin/node with spaces", 0);
    const constants = mapping("7fc3f2a00000-7fc3f2a99000", "r--p", "/usr/lib/libstdc++.so.6", 0);
    assert.deepEqual(startsOf(code, constants), ["82e000-3489000", "7fc3f2a00000-7fc3f2a99000"]);
  });

  it("leaves out all that dropping would change, and all that isn't a file", () => {
    const found = startsOf(
      mapping("072a7000-072dc000", "r--p", "/usr/bin/node", 24),
      mapping("072dc000-07308000", "rw-p", "/usr/bin/node", 0),
      mapping("7fc3f2000000-7fc3f2001000", "r--s", "/dev/shm/shared", 0),
      mapping("7fc3f2001000-7fc3f2002000", "r-xp", "[vdso]", 0),
      mapping("7fc3f2002000-7fc3f2003000", "r--p", "", 0),
      mapping("7fc3f2003000-7fc3f2004000", "r--p", "/usr/lib/libc.so.6", 0),
    );
    assert.deepEqual(found, ["7fc3f2003000-7fc3f2004000"]);
  });

  it("doesn't take the next mapping's word for one without that line", () => {
    const silent = "00001000-00002000 r-xp 00000000 fe:00 1 /a\nSize: 4 kB\n";
    assert.deepEqual(startsOf(silent, mapping("00003000-00004000", "r-xp", "/b", 0)), ["3000-4000"]);
  });
});
