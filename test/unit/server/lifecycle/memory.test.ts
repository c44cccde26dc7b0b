// Tests of when an idle server gives memory back, and of which.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { IdleMemory, isUnchanged, mappedFiles } from "../../../../src/server/lifecycle/memory.ts";

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

describe("mappedFiles", () => {
  const startsOf = (...lines: string[]): string[] =>
    mappedFiles(lines.join("\n")).map(({ start, end }) => `${start.toString(16)}-${end.toString(16)}`);

  it("has code and constants of files", () => {
    const found = startsOf(
      "0082e000-03489000 r-xp 0042e000 fe:00 131                  /usr/bin/node with spaces",
      "7fc3f2a00000-7fc3f2a99000 r--p 00000000 fe:00 2345         /usr/lib/libstdc++.so.6",
    );
    assert.deepEqual(found, ["82e000-3489000", "7fc3f2a00000-7fc3f2a99000"]);
  });

  it("leaves out what can be written to, is shared, or isn't a file", () => {
    const found = startsOf(
      "072dc000-07308000 rw-p 06edc000 fe:00 131 /usr/bin/node",
      "7fc3f1000000-7fc3f1001000 rwxp 00000000 fe:00 131 /usr/bin/node",
      "7fc3f2000000-7fc3f2001000 r--s 00000000 00:1a 7 /dev/shm/shared",
      "7fc3f2001000-7fc3f2002000 r-xp 00000000 00:00 0 [vdso]",
      "7fc3f2002000-7fc3f2003000 r--p 00000000 00:00 0",
    );
    assert.deepEqual(found, []);
  });
});

describe("isUnchanged", () => {
  /** The last byte of an entry: flags of a page. The others are the page's number. */
  const entries = (...flags: number[]): Uint8Array =>
    Uint8Array.from(flags.flatMap((each) => [0xff, 0xff, 0xff, 0, 0, 0, 0, each]));

  it("is true for pages of the file, mapped or not", () => {
    assert.equal(isUnchanged(entries(0x00, 0xa0, 0xa1, 0x00)), true);
  });

  it("is false with a page of the process, in memory or swapped out", () => {
    assert.equal(isUnchanged(entries(0xa0, 0x80, 0xa0)), false);
    assert.equal(isUnchanged(entries(0xa0, 0xa0, 0x81)), false);
    assert.equal(isUnchanged(entries(0x40, 0xa0)), false);
  });
});
