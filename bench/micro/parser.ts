// The command parser: lines as clients send them.
import { CommandParser } from "../../src/protocol/command-parser.ts";
import { Op } from "../../src/protocol/commands.ts";
import type { Request } from "../../src/protocol/request.ts";
import type { MicroBenchmark } from "./micro-benchmark.ts";

const JOB_BYTES_MAX = 65535;

/** Each line with its command, and all numbers in it. */
const LINES: readonly { readonly text: string; readonly op: Op; readonly sum: number }[] = [
  { text: "put 1024 0 60 64", op: Op.Put, sum: 1024 + 60 + 64 },
  { text: "reserve", op: Op.Reserve, sum: 0 },
  { text: "reserve-with-timeout 5", op: Op.ReserveWithTimeout, sum: 5 },
  { text: "delete 1234567", op: Op.Delete, sum: 1234567 },
  { text: "release 1234567 10 3", op: Op.Release, sum: 1234567 + 10 + 3 },
  { text: "use emails-outgoing", op: Op.Use, sum: 15 },
  { text: "touch 99", op: Op.Touch, sum: 99 },
  { text: "kick 100", op: Op.Kick, sum: 100 },
];

/** The same numbers; the sum has the lengths of names and options besides. */
const NAMED = "put-in-tube emails-outgoing 1024 0 60 64";
const UNIQUE_OPTIONS = "unique=welcome:12345";
const NAMED_LINES: typeof LINES = [
  { text: NAMED, op: Op.PutInTube, sum: 1024 + 60 + 64 + 15 },
  // Tag, length and value of the option, up to a multiple of 4.
  { text: `${NAMED} ${UNIQUE_OPTIONS}`, op: Op.PutInTube, sum: 1024 + 60 + 64 + 15 + 16 },
];

function cycle(name: string, lines: typeof LINES): MicroBenchmark {
  const sumOf = (line: (typeof LINES)[number]): number => line.op + line.sum;
  return {
    subject: "parser",
    name,
    operations: 1_000_000,
    smallOperations: 1000,
    expected(operations) {
      const whole = lines.reduce((sum, line) => sum + sumOf(line), 0);
      const rest = lines.slice(0, operations % lines.length).reduce((sum, line) => sum + sumOf(line), 0);
      return Math.floor(operations / lines.length) * whole + rest;
    },
    open(operations) {
      const parser = new CommandParser(JOB_BYTES_MAX);
      const texts = lines.map(({ text }) => Buffer.from(text));
      return {
        run() {
          let sum = 0;
          for (let i = 0; i < operations; i++) {
            const line = texts[i % texts.length]!;
            parser.parse(line, 0, line.length);
            sum += parser.request.op + numbersOf(parser.request);
          }
          return sum;
        },
      };
    },
  };
}

/** What the line said, as one number. */
function numbersOf(request: Request): number {
  switch (request.op) {
    case Op.Put:
      return request.pri + request.delaySeconds + request.ttrSeconds + request.bodyBytes;
    case Op.PutInTube:
      return (
        request.pri +
        request.delaySeconds +
        request.ttrSeconds +
        request.bodyBytes +
        request.tube.length +
        request.options.length
      );
    case Op.ReserveWithTimeout:
      return request.timeoutMs / 1000;
    case Op.Release:
      return request.id + request.pri + request.delaySeconds;
    case Op.Delete:
    case Op.Touch:
      return request.id;
    case Op.Kick:
      return request.count;
    case Op.Use:
      return request.tube.length;
    default:
      return 0;
  }
}

export const PARSER: readonly MicroBenchmark[] = [
  cycle("put line", LINES.slice(0, 1)),
  cycle("put-in-tube line", NAMED_LINES.slice(0, 1)),
  cycle("put-in-tube line with a unique key", NAMED_LINES.slice(1)),
  cycle("delete line", LINES.slice(3, 4)),
  cycle("a mix of eight commands", LINES),
];
