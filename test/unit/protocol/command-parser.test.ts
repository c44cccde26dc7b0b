import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { asciiBytes, latin1 } from "../../../src/base/bytes.ts";
import { CommandParser, Syntax } from "../../../src/protocol/command-parser.ts";
import { Args, AUTH, COMMANDS, commandName, Op, STRICT_COMMANDS } from "../../../src/protocol/commands.ts";
import { EXTENSION_LINE_BYTES_MAX, LINE_BYTES_MAX, U32_MAX } from "../../../src/protocol/limits.ts";
import { OptionTag } from "../../../src/protocol/option-rows.ts";
import { optionNumber, optionText } from "../../../src/protocol/options.ts";
import { type Request, ReserveOrder } from "../../../src/protocol/request.ts";
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

// Tests of the lines of commands that beanstalkd lacks: their arguments, and what is refused.

describe("extension parser", () => {
  const JOB_BYTES_MAX = 65535;
  const parser = new CommandParser(JOB_BYTES_MAX);

  /** Text around the line, which the parser must not look at. */
  function parse(line: string, before = "list-", after = "0* k=1"): { request: Request; syntax: Syntax } {
    const bytes = asciiBytes(`${before}${line}${after}`);
    const syntax = parser.parse(bytes, before.length, before.length + line.length);
    return { request: parser.request, syntax };
  }

  /** The request of a line that must be right. */
  function accepted(line: string): Request {
    const { request, syntax } = parse(line);
    assert.equal(syntax, Syntax.Ok, line);
    return request;
  }

  function refused(lines: readonly string[], syntax: Syntax = Syntax.BadFormat): void {
    for (const line of lines) assert.equal(parse(line).syntax, syntax, JSON.stringify(line));
  }

  const N200 = "a".repeat(200);

  describe("CommandParser reads put-in-tube", () => {
    it("with a tube, four numbers, and a delay to the millisecond", () => {
      for (const blanks of [" ", "   "]) {
        const request = accepted(["put-in-tube mails", "7", "2.25", "0", "65535"].join(blanks));
        assert.equal(request.op, Op.PutInTube);
        assert.equal(request.tube.text, "mails");
        const { pri, delaySeconds, delayMillis, ttrSeconds, bodyBytes } = request;
        assert.deepEqual([pri, delaySeconds, delayMillis, ttrSeconds, bodyBytes], [7, 2, 250, 1, 65535]);
        assert.equal(request.options.length, 0);
      }
      assert.equal(accepted(`put-in-tube ${N200} 0 0 1 0`).tube.text, N200);
    });

    it("refuses what is glued together, missing or too large, whatever the options", () => {
      refused([
        "put-in-tube ",
        "put-in-tube mails",
        "put-in-tube mails 1 0 1",
        "put-in-tube mails 1x 0 1 0",
        "put-in-tube mails 1 0x 1 0",
        "put-in-tube mails 1 0 1x 0",
        "put-in-tube mails 1 0 1 0x",
        "put-in-tube mails 1 0 1 0;ttl=1",
        "put-in-tube mails 4294967296 0 1 0",
        "put-in-tube mails 0 4294967296 1 0",
        "put-in-tube mails 0 0 4294967296 0",
        "put-in-tube mails 0 0 1 4294967296",
        "put-in-tube mails 0 1.0001 1 0",
        "put-in-tube mails 0 1. 1 0",
        "put-in-tube -mails 0 0 1 0",
        `put-in-tube ${N200}a 0 0 1 0`,
        "put-in-tube * 0 0 1 0",
      ]);
    });

    it("looks at options only when the size is known to fit", () => {
      refused(["put-in-tube mails 0 0 1 65536", "put-in-tube mails 0 0 1 65536 nonsense"], Syntax.TooBig);
      refused(["put-in-tube mails 0 0 1 5 nonsense", "put-in-tube mails 0 0 1 5 "], Syntax.BadOption);
      refused(["put-in-tube mails 0 0 1 5 prio=1"], Syntax.UnknownOption);
      assert.equal(parser.unknownOption, "prio");
    });
  });

  describe("CommandParser reads the other extensions", () => {
    it("a tube, all tubes, a pattern, and a target", () => {
      assert.equal(accepted("list-jobs mails").tube.text, "mails");
      assert.equal(accepted("list-jobs  *").tube.text, "*");
      assert.equal(accepted("inspect-tube mails").tube.text, "mails");
      assert.equal(accepted("set-tube mail-* max-jobs=1").tube.text, "mail-*");
      assert.equal(accepted("set-tube * max-jobs=1").tube.text, "*");
      assert.equal(accepted("set-tube mails max-jobs=1").tube.text, "mails");
      for (const target of ["sms", "*"]) {
        const request = accepted(`move-jobs mails  ${target}`);
        assert.deepEqual([request.tube.text, request.target.text], ["mails", target]);
      }
      refused([
        ...[
          "list-jobs **",
          "list-jobs a*",
          "list-jobs ",
          "list-jobs +*",
          "inspect-tube *",
          "inspect-tube a b",
        ],
        ...["inspect-tube mails ", "set-tube a*b max-jobs=1", "set-tube ** max-jobs=1", "set-tube  "],
        ...["move-jobs mails", "move-jobs mails s*", "move-jobs * sms", "move-jobs mails -sms", "move-jobs "],
      ]);
    });

    it("options where the command has some, and at least one where it needs one", () => {
      const { options } = accepted("update-job 7 pri=3 delay=1.5");
      assert.equal(optionNumber(options, OptionTag.Pri), 3);
      assert.equal(optionNumber(options, OptionTag.Delay), 1500);
      assert.equal(parser.request.id, 7);
      refused(["update-job 7", "set-tube mails", "update-job x pri=3", "inspect-job 1 pri=3", "touch-all 1"]);
      refused(["update-job 7 pri=x", "update-job 7 pri=3  "], Syntax.BadOption);
      accepted("list-batches");
      accepted("list-schedules limit=7");
      refused(["list-scheduleslimit=7"], Syntax.BadOption);
    });

    it("a count up to the largest batch, and a time to wait", () => {
      const request = accepted("reserve-batch 7 1.5");
      assert.deepEqual([request.count, request.timeoutMs], [7, 1500]);
      assert.equal(accepted("reserve-batch 1 -1").timeoutMs, Number.POSITIVE_INFINITY);
      assert.equal(accepted("reserve-batch 1000 0").count, 1000);
      assert.equal(accepted("reserve-batch 1001 0").count, 1000);
      assert.equal(accepted("reserve-batch 4294967295 0").count, 1000);
      refused([
        ...["reserve-batch 0 0", "reserve-batch 1", "reserve-batch 1 -", "reserve-batch 1 -2"],
        ...["reserve-batch 1 -1x", "reserve-batch 1 0x", "reserve-batch x 0", "reserve-batch 4294967296 0"],
      ]);
    });

    it("ids, at most a thousand", () => {
      const request = accepted("delete-batch 1  22 333");
      assert.deepEqual([request.count, request.ids.text.trim()], [3, "1  22 333"]);
      assert.equal(accepted("delete-batch 18446744073709551615").count, 1);
      assert.equal(accepted(`delete-batch ${"1 ".repeat(999)}1`).count, 1000);
      refused([
        ...[`delete-batch ${"1 ".repeat(1000)}1`, "delete-batch ", "delete-batch 1 ", "delete-batch 1,2"],
        ...["delete-batch 1 x", "delete-batch 1x", "delete-batch 18446744073709551616"],
      ]);
    });

    it("the name of a worker, a schedule and a batch", () => {
      assert.equal(accepted("name  worker:7/eu").name.text, "worker:7/eu");
      assert.equal(accepted(`name ${"w".repeat(63)}`).name.length, 63);
      assert.equal(accepted("name !").name.text, "!");
      refused([
        "name ",
        "name   ",
        "name a b",
        "name a\x7f",
        "name \x7f",
        "name a\t",
        `name ${"w".repeat(64)}`,
      ]);
      assert.equal(accepted(`pause-schedule ${N200}`).name.length, 200);
      refused([`pause-schedule ${N200}a`, "pause-schedule "]);
      assert.equal(accepted("commit-batch nightly").tube.text, "nightly");
      refused(["commit-batch -x", "commit-batch *", "commit-batch a b"]);
    });

    it("numbers up to the end of the line only", () => {
      for (const after of ["0", "1", " 1", "-1"]) {
        for (const line of [
          "inspect-job 0",
          "inspect-job 7",
          "delete-batch 0 0",
          "touch 0",
          "reserve-batch 1 0",
        ])
          assert.equal(parse(line, "", after).syntax, Syntax.Ok, `${line} before ${after}`);
        for (const line of ["reserve-batch 1 -", "reserve-batch 1 ", "delete-batch ", "inspect-job "])
          assert.equal(parse(line, "", after).syntax, Syntax.BadFormat, `${line} before ${after}`);
      }
    });

    it("limits of lists from 1 to 1000", () => {
      for (const limit of [1, 1000])
        assert.equal(
          optionNumber(accepted(`list-jobs mails limit=${limit}`).options, OptionTag.Limit),
          limit,
        );
      refused(
        ["list-jobs mails limit=0", "list-jobs mails limit=1001", "list-batches limit=0"],
        Syntax.BadOption,
      );
    });

    it("the three orders of reserves", () => {
      assert.equal(accepted("reserve-order strict").count, ReserveOrder.Strict);
      assert.equal(accepted("reserve-order  weighted").count, ReserveOrder.Weighted);
      assert.equal(accepted("reserve-order weighted-time").count, ReserveOrder.WeightedTime);
      refused([
        ...["reserve-order ", "reserve-order weight", "reserve-order weighted-", "reserve-order strict x"],
        ...["reserve-order STRICT", "reserve-order weighted-times", "reserve-order strict "],
      ]);
    });

    it("a schedule's name as the first of its options", () => {
      const { options, tube, name, pri, delaySeconds, ttrSeconds, bodyBytes } = accepted(
        "set-schedule nightly mails 1 2 3 4 every=60",
      );
      assert.equal(Buffer.from(optionText(options, OptionTag.Schedule)!).toString(), "nightly");
      assert.equal(optionNumber(options, OptionTag.Every), 60_000);
      assert.deepEqual([tube.text, pri, delaySeconds, ttrSeconds, bodyBytes], ["mails", 1, 2, 3, 4]);
      assert.equal(name.length, 0, "the place of the body is free");
      refused(["set-schedule nightly mails 1 2 3", "set-schedule nightly"]);
      refused(["set-schedule nightly mails 0 0 1 70000 every=60"], Syntax.TooBig);
    });
  });

  describe("CommandParser reads the options of beanstalkd's commands", () => {
    it("the reason of a release and of a bury", () => {
      const release = accepted("release 1 2 3 reason=broken%20pipe");
      assert.deepEqual([release.id, release.pri, release.delaySeconds], [1, 2, 3]);
      assert.equal(release.reason.text, "broken pipe");
      assert.equal(accepted("bury 1 2   reason=x").reason.text, "x");
      assert.equal(accepted("bury 1 2").reason.length, 0);
      refused([
        ...["release 1 2 3 reason=", "release 1 2 3 reason", "release 1 2 3reason=x", "bury 1 2 reason=x "],
        ...["bury 1 2 reason=x y", "bury 1 2 reasons=x", "bury 1 2 reason=%2", "bury 1 2 reason=a\x01"],
        ...["bury 1 2 weight=3", "bury 1 x reason=x", "touch 1 reason=x", "delete 1 reason=x", "bury 1 2 "],
      ]);
      const long = "x".repeat(1024);
      assert.equal(accepted(`bury 1 2 reason=${long}`).reason.text, long);
      refused([`bury 1 2 reason=${long}x`]);
      assert.equal(accepted(`bury 1 2 reason=${"%41".repeat(1024)}`).reason.text, "A".repeat(1024));
    });

    it("the weight of a watch", () => {
      const { tube, options } = accepted("watch mails weight=5");
      assert.equal(tube.text, "mails");
      assert.equal(optionNumber(options, OptionTag.Weight), 5);
      refused([
        ...["watch mails weight=0", "watch mails weight=1001", "watch mails weight=", "watch mails  "],
        ...["watch mails wait=1", "watch -mails weight=5", "use mails weight=5", "ignore mails weight=5"],
        "watch  weight=5",
      ]);
    });

    it("none of them in the strict protocol", () => {
      const strict = new CommandParser(JOB_BYTES_MAX, STRICT_COMMANDS);
      const syntaxOf = (line: string): Syntax => strict.parse(asciiBytes(line), 0, line.length);
      assert.equal(syntaxOf("watch mails weight=5"), Syntax.BadFormat);
      assert.equal(syntaxOf("bury 1 2 reason=x"), Syntax.BadFormat);
      assert.equal(syntaxOf("touch-all"), Syntax.Unknown);
      assert.equal(syntaxOf("watch mails"), Syntax.Ok);
    });
  });

  describe("CommandParser reads auth", () => {
    const auth = new CommandParser(JOB_BYTES_MAX, [AUTH]);
    const syntaxOf = (line: string): Syntax => auth.parse(asciiBytes(`${line} x`), 0, line.length);

    it("with one secret of any bytes but blanks", () => {
      for (const secret of ["x", "rb1_\x7f\xff=", "s".repeat(300)]) {
        assert.equal(syntaxOf(`auth ${secret}`), Syntax.Ok);
        assert.equal(auth.request.secret.text, secret);
      }
      for (const line of ["auth ", "auth  x", "auth x ", "auth a b"])
        assert.equal(syntaxOf(line), Syntax.BadFormat, line);
    });

    it("on listeners that know it only", () => {
      assert.equal(parse("auth x").syntax, Syntax.Unknown);
      assert.equal(syntaxOf("stats"), Syntax.Unknown);
    });
  });

  describe("CommandParser.lineBytesMax", () => {
    const limitOf = (line: string, before = "", after = ""): number => {
      const bytes = asciiBytes(before + line + after);
      return parser.lineBytesMax(bytes, before.length, before.length + line.length);
    };

    it("is beanstalkd's for its commands and for what is no command", () => {
      for (const line of ["put 0", "use a", "nonsense", "", "reserve", "release 1 2 3", "bury 1 2 reason"])
        assert.equal(limitOf(line), LINE_BYTES_MAX, line);
      assert.equal(limitOf("delete 1 reason=x"), LINE_BYTES_MAX, "delete takes no reason");
      assert.equal(limitOf("bury 1 2", "", " reason=x"), LINE_BYTES_MAX, "another line's reason");
      assert.equal(limitOf("bury 1 2x reason", "", "=x"), LINE_BYTES_MAX);
    });

    it("is longer for extensions, and for a release or bury with a reason", () => {
      for (const { word } of COMMANDS.filter(({ extension }) => extension))
        assert.equal(limitOf(word, "stats ", "x"), EXTENSION_LINE_BYTES_MAX, word);
      for (const line of ["bury 1 2 reason=", "release 1 2 3 reason=x", "release 1 2 3  reason=x"])
        assert.equal(limitOf(line), EXTENSION_LINE_BYTES_MAX, line);
    });
  });

  describe("CommandParser keeps nothing of the line before", () => {
    it("in its op", () => {
      accepted("touch-all");
      assert.equal(parse("nonsense").request.op, Op.Unknown);
    });

    it("in numbers, names and options", () => {
      accepted("put-in-tube mails 9 9.999 9 9 ttl=9");
      const request = accepted("reserve");
      const { tube, options, body, id, pri, delaySeconds, delayMillis, ttrSeconds, bodyBytes, count } =
        request;
      assert.deepEqual([tube.length, options.length, body.length], [0, 0, 0]);
      assert.deepEqual(
        [id, pri, delaySeconds, delayMillis, ttrSeconds, bodyBytes, count],
        [0, 0, 0, 0, 0, 0, 0],
      );
      accepted("reserve-batch 7 3");
      assert.deepEqual([accepted("touch-all").count, accepted("touch-all").timeoutMs], [0, 0]);
      accepted(`put ${U32_MAX} 0 1 5`);
      assert.equal(accepted("kick 3").pri, 0);
    });
  });
});
