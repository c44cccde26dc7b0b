import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { asciiBytes, latin1 } from "../../../src/base/bytes.ts";
import { CommandParser, Syntax } from "../../../src/protocol/command-parser.ts";
import { Args, COMMANDS, commandName, Op } from "../../../src/protocol/commands.ts";
import { U32_MAX } from "../../../src/protocol/limits.ts";
import type { Request } from "../../../src/protocol/request.ts";
import { checkProperty } from "../../support/seeded-property.ts";

const JOB_BYTES_MAX = 65535;
/** Text around the line, which the parser must not look at. */
const BEFORE = "stats put 1 ";
const AFTER = "7 quit";

function parse(line: string): { request: Request; syntax: Syntax; name: string } {
  const parser = new CommandParser(JOB_BYTES_MAX);
  const bytes = asciiBytes(`${BEFORE}${line}${AFTER}`);
  const syntax = parser.parse(bytes, BEFORE.length, BEFORE.length + line.length);
  const { request } = parser;
  return { request, syntax, name: request.tube.text };
}

function check(syntax: Syntax, op: Op | undefined, lines: readonly string[]): void {
  for (const line of lines) {
    const got = parse(line);
    const what = JSON.stringify(line);
    assert.equal(got.syntax, syntax, what);
    if (op !== undefined) assert.equal(got.request.op, op, what);
  }
}

const N200 = "a".repeat(200);

/** Names and ops of the commands with such arguments. */
const commandsWith = (args: Args): [name: string, op: Op][] =>
  COMMANDS.filter((each) => each.args === args && each.extension !== true).map((each) => [
    commandName(each),
    each.op,
  ]);

describe("CommandParser recognises (protocol/README.md 2.1)", () => {
  it("case-sensitive prefixes at the first byte only", () => {
    check(Syntax.Unknown, Op.Unknown, [
      "",
      "STATS",
      "Stats",
      " stats",
      "\tstats",
      "nont10knowncommand",
      "\x80",
    ]);
    check(Syntax.Unknown, Op.Unknown, [
      "list",
      "list-tube",
      "p",
      "r",
      "d",
      "b",
      "k",
      "t",
      "s",
      "u",
      "w",
      "i",
      "l",
      "q",
    ]);
  });

  it("nothing without the space that belongs to the name", () => {
    const words = COMMANDS.map(({ word }) => word).filter((word) => word.endsWith(" "));
    // But "stats-job" is "stats" with something behind it.
    const isAnother = (name: string): boolean => COMMANDS.some(({ word }) => name.startsWith(word));
    const names = words.map((word) => word.trimEnd()).filter((name) => !isAnother(name));
    assert.ok(names.length > 10);
    check(Syntax.Unknown, undefined, names);
    check(Syntax.Unknown, undefined, [
      "putx 0 0 0 0",
      "deletex 1",
      "touchx 1",
      "watchx a",
      "kick-jobx 1",
      "peekx",
      "peek-foo",
      "kickx",
    ]);
    check(Syntax.Unknown, undefined, ["put\t0 0 1 5", "kick\t1"]);
    check(
      Syntax.BadFormat,
      undefined,
      names.map((name) => `${name} `),
    );
  });

  it("a bare command with text behind it as malformed", () => {
    for (const [name, op] of commandsWith(Args.None)) {
      check(Syntax.Ok, op, [name]);
      check(Syntax.BadFormat, op, [`${name} `, `${name}x`, `${name} 5`]);
    }
    check(Syntax.BadFormat, undefined, ["list-tubes-", "statsx", "reservexyz", "reserve 5"]);
  });

  it("names without their space as the shorter command with garbage", () => {
    check(Syntax.BadFormat, Op.Stats, ["stats-job", "stats-tube"]);
    check(Syntax.BadFormat, Op.Reserve, [
      "reserve-with-timeout",
      "reserve-with-timeout0",
      "reserve-job",
      "reserve-jobx 1",
    ]);
    check(Syntax.BadFormat, undefined, ["reserve-with-timeoutx 0"]);
  });

  it("quit, whatever follows it", () => {
    check(Syntax.Ok, Op.Quit, ["quit", "quitxyz", "quit foo", "quit\t"]);
    check(Syntax.Unknown, undefined, ["qui", "Quit", "QUIT"]);
  });

  it("pause-tube without a space", () => {
    const { request, syntax, name } = parse("pause-tubedefault 0");
    assert.deepEqual(
      [syntax, request.op, name, request.delaySeconds],
      [Syntax.Ok, Op.PauseTube, "default", 0],
    );
    assert.equal(parse("pause-tubex 0").name, "x");
    check(Syntax.BadFormat, Op.PauseTube, ["pause-tube", "pause-tube ", "pause-tube default"]);
  });
});

describe("CommandParser reads integers (protocol/README.md 2.2)", () => {
  it("ids of 64 bits, any number of blanks before and none behind", () => {
    for (const [name, op] of commandsWith(Args.Id)) {
      check(Syntax.Ok, op, [
        `${name} 1`,
        `${name}   1`,
        `${name} 0001`,
        `${name} 0`,
        `${name} 18446744073709551615`,
      ]);
      check(Syntax.Ok, op, [`${name} 00000000000000000000000000000018446744073709551615`]);
      check(Syntax.BadFormat, op, [
        `${name} 18446744073709551616`,
        `${name} ${"1".repeat(48)}`,
        `${name} foo111`,
        `${name} 111foo`,
      ]);
      check(Syntax.BadFormat, op, [
        `${name} 1 `,
        `${name} 1 2`,
        `${name} 1.0`,
        `${name} 0x1`,
        `${name} +1`,
        `${name} -1`,
        `${name} \t1`,
      ]);
    }
    assert.equal(parse("peek 9007199254740991").request.id, Number.MAX_SAFE_INTEGER);
    assert.equal(parse("peek 9007199254740993").request.id, 0);
  });

  it("release: id, pri and delay", () => {
    const { request, syntax } = parse("release  1  2  3");
    assert.equal(syntax, Syntax.Ok);
    assert.deepEqual([request.op, request.id, request.pri, request.delaySeconds], [Op.Release, 1, 2, 3]);
    check(Syntax.Ok, Op.Release, ["release 1 4294967295 4294967295", "release 1 4294967295 0"]);
    check(Syntax.BadFormat, Op.Release, [
      "release 1",
      "release 1 2",
      "release 1 2 3 ",
      "release 1 2 3 4",
      "release 1 4294967296 0",
      "release 1 0 4294967296",
      "release x 1 1",
      "release 1 x 1",
      "release 1 1 x",
      "release 1 -1 0",
    ]);
  });

  it("bury: id and pri", () => {
    const { request } = parse("bury 11 4294967295");
    assert.deepEqual([request.op, request.id, request.pri], [Op.Bury, 11, U32_MAX]);
    check(Syntax.BadFormat, Op.Bury, [
      "bury 1",
      "bury 111abc 2",
      "bury 111 222abc",
      "bury 1 4294967296",
      "bury 1 2 ",
    ]);
  });

  it("kick like C's strtoul; more than 32 bits means all", () => {
    assert.equal(parse("kick 1 2").request.count, 1);
    assert.equal(parse("kick -1").request.count, U32_MAX);
    assert.equal(parse("kick 4294967296").request.count, U32_MAX);
    check(Syntax.Ok, Op.Kick, ["kick 1 ", "kick 1x", "kick +1", "kick 0x10", "kick \t1"]);
    check(Syntax.BadFormat, Op.Kick, [
      "kick x",
      "kick ",
      "kick - 1",
      "kick 18446744073709551616",
      "kick -18446744073709551616",
    ]);
  });

  it("reserve-with-timeout with text behind it, and -1 as forever", () => {
    assert.equal(parse("reserve-with-timeout 12 junk").request.timeoutMs, 12_000);
    assert.equal(parse("reserve-with-timeout -1").request.timeoutMs, Number.POSITIVE_INFINITY);
    check(Syntax.Ok, Op.ReserveWithTimeout, ["reserve-with-timeout 0abc", "reserve-with-timeout 2147483647"]);
    check(Syntax.BadFormat, Op.ReserveWithTimeout, [
      "reserve-with-timeout ",
      "reserve-with-timeout abc",
      "reserve-with-timeout 2147483648",
      "reserve-with-timeout -5",
      "reserve-with-timeout 18446744073709551616",
    ]);
  });
});

describe("CommandParser reads put (protocol/README.md 3.1)", () => {
  it("four numbers; ttr 0 becomes 1", () => {
    const { request, syntax } = parse("put 00 7 0 05");
    assert.equal(syntax, Syntax.Ok);
    assert.deepEqual(
      [request.pri, request.delaySeconds, request.ttrSeconds, request.bodyBytes],
      [0, 7, 1, 5],
    );
    check(Syntax.Ok, Op.Put, [
      "put  0  0  1  5",
      "put 4294967295 4294967295 4294967295 65535",
      "put 0 0 1 0",
    ]);
  });

  it("malformed numbers before everything else", () => {
    check(Syntax.BadFormat, Op.Put, [
      "put 0",
      "put 0 0",
      "put 0 0 0",
      "put -1 0 1 5",
      "put 4294967296 0 1 5",
      "put 0 4294967296 1 5",
      "put 0 0 4294967296 5",
      "put 0 0 1 -1",
      "put 0 0 1 4294967296",
      "put 0\t0 1 5",
      "put 0 0 x 14",
      "put 0 0 1 !",
    ]);
  });

  it("the size limit, which is inclusive, before trailing text", () => {
    check(Syntax.TooBig, Op.Put, [
      "put 0 0 1 65536",
      "put 0 0 1 65536 junk",
      "put 0 0 1 4294967295",
      "put 0 0 1 65536 ",
    ]);
    assert.equal(parse("put 0 0 1 70000").request.bodyBytes, 70000);
    check(Syntax.BadFormatCounted, Op.Put, ["put 0 0 1 5 ", "put 0 0 1 10b", "put 0 0 1 65535 junk"]);
  });
});

describe("CommandParser reads tube names (protocol/README.md 2.3)", () => {
  it("as everything behind the single space", () => {
    for (const [name, op] of commandsWith(Args.Tube)) {
      for (const tube of ["a", "a-", "+", "0", "0.5", "()-+/;.$_", N200, "x_y"]) {
        const got = parse(`${name} ${tube}`);
        assert.deepEqual([got.syntax, got.request.op, got.name], [Syntax.Ok, op, tube]);
      }
      check(Syntax.BadFormat, op, [
        `${name} `,
        `${name}  a`,
        `${name} a `,
        `${name} a b`,
        `${name} \ta`,
        `${name} ${N200}a`,
      ]);
      check(Syntax.BadFormat, op, [`${name} -`, `${name} -a`, `${name} -0`, `${name} a\nb`, `${name} \x80`]);
      for (const bad of ",:=@#*~&'\"\\<%!?[{|^`") check(Syntax.BadFormat, op, [`${name} a${bad}`]);
    }
  });

  it("accepts exactly the bytes of protocol/README.md 2.3", () => {
    const allowed = /^[A-Za-z0-9\-+/;.$_()]$/;
    for (let byte = 0; byte < 256; byte++) {
      const character = String.fromCharCode(byte);
      const wanted = allowed.test(character) ? Syntax.Ok : Syntax.BadFormat;
      assert.equal(parse(`use a${character}`).syntax, wanted, `byte ${byte}`);
    }
  });

  it("pause-tube with blanks around the name, counted when only the name is bad", () => {
    const { syntax, name, request } = parse("pause-tube  default  4294967295");
    assert.deepEqual([syntax, name, request.delaySeconds], [Syntax.Ok, "default", U32_MAX]);
    assert.equal(parse(`pause-tube ${N200} 4294967295`).syntax, Syntax.Ok);
    check(Syntax.BadFormatCounted, Op.PauseTube, [
      "pause-tube -x 0",
      `pause-tube ${N200}a 0`,
      "pause-tube - 0",
    ]);
    check(Syntax.BadFormat, Op.PauseTube, [
      "pause-tube default 0 ",
      "pause-tube default! 0",
      "pause-tube default\t0",
      "pause-tube default 4294967296",
      "pause-tube default -1",
      "pause-tube 5",
    ]);
  });
});

describe("CommandParser", () => {
  it("takes any bytes without throwing, and accepts nothing beyond a limit", (t) => {
    const line = fc.oneof(
      fc.uint8Array({ maxLength: 40 }).map((bytes) => latin1(bytes, 0, bytes.length)),
      fc
        .tuple(
          fc.constantFrom(...COMMANDS.map(commandName)),
          fc.array(fc.oneof(fc.nat().map(String), fc.string()), { maxLength: 5 }),
        )
        .map(([word, rest]) => [word, ...rest].join(" ")),
    );
    checkProperty(
      t,
      fc.property(line, (text) => {
        const { request, syntax, name } = parse(text);
        if (syntax !== Syntax.Ok) return;
        assert.ok(request.op !== Op.Unknown && request.id >= 0 && request.id <= Number.MAX_SAFE_INTEGER);
        assert.ok(request.pri <= U32_MAX && request.delaySeconds <= U32_MAX && request.count <= U32_MAX);
        assert.ok(request.bodyBytes <= JOB_BYTES_MAX && name.length <= 200);
      }),
      1000,
    );
  });
});
