// Tests of the lines of commands that beanstalkd lacks: their arguments, and what is refused.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { asciiBytes } from "../../../src/base/bytes.ts";
import { CommandParser, Syntax } from "../../../src/protocol/command-parser.ts";
import { AUTH, COMMANDS, Op, STRICT_COMMANDS } from "../../../src/protocol/commands.ts";
import { EXTENSION_LINE_BYTES_MAX, LINE_BYTES_MAX, U32_MAX } from "../../../src/protocol/limits.ts";
import { OptionTag } from "../../../src/protocol/option-rows.ts";
import { optionNumber, optionText } from "../../../src/protocol/options.ts";
import { type Request, ReserveOrder } from "../../../src/protocol/request.ts";

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
      ...["list-jobs **", "list-jobs a*", "list-jobs ", "list-jobs +*", "inspect-tube *", "inspect-tube a b"],
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
      assert.equal(optionNumber(accepted(`list-jobs mails limit=${limit}`).options, OptionTag.Limit), limit);
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
    const { tube, options, body, id, pri, delaySeconds, delayMillis, ttrSeconds, bodyBytes, count } = request;
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
