// Expected reply of one command line, derived from the line alone: the grammar of the protocol as
// regular expressions.
//
// Written from the protocol's text, and deliberately unlike src/protocol/command-parser.ts, which
// it judges.
import { type BytePattern, patternOf } from "../support/byte-pattern.ts";
import { BARE, BY_ID, BY_PATTERN, BY_SCHEDULE, meaningByName, SCHEDULE, WAITED } from "./argument-meaning.ts";
import { type After, type LineMeaning, meaning } from "./line-meaning.ts";

const U32_MAX = 2n ** 32n - 1n;
const U64_MAX = 2n ** 64n - 1n;
const TIMEOUT_MAX = 2n ** 31n - 1n;
const NAME = /^[A-Za-z0-9+/;.$_()][-A-Za-z0-9+/;.$_()]{0,199}$/;

const BY_NAME: Readonly<Record<string, readonly string[]>> = {
  use: ["USING {any}"],
  watch: ["WATCHING {int}"],
  ignore: ["WATCHING {int}", "NOT_IGNORED"],
  "stats-tube": ["OK {int}", "NOT_FOUND"],
};

/** Words that select a command; of those that a line begins with, the longest counts. */
const WORDS: readonly string[] = [
  ...Object.keys(BY_ID).map((word) => `${word} `),
  ...Object.keys(BY_NAME).map((word) => `${word} `),
  ...Object.keys(BARE),
  "put ",
  "kick ",
  "put-in-tube ",
  "list-jobs ",
  "finished-jobs ",
  "clear-tube ",
  "inspect-tube ",
  "update-job ",
  "touch-job ",
  "cancel-job ",
  "set-tube ",
  "move-jobs ",
  "reserve-batch ",
  "delete-batch ",
  "reserve-with-timeout ",
  "pause-tube",
  "set-schedule ",
  "list-schedules",
  ...Object.keys(BY_SCHEDULE).map((word) => `${word} `),
  "name ",
  "reserve-order ",
  "open-batch ",
  "commit-batch ",
  "cancel-batch ",
  "inspect-batch ",
  "list-batches",
  "quit",
].sort((left, right) => right.length - left.length);

export const COMMANDS: readonly string[] = WORDS.map((word) => word.trimEnd());

const fits = (digits: string | undefined, limit: bigint): boolean =>
  /^\d*$/.test(digits ?? "") && BigInt(digits ?? "") <= limit;

/** `line` is without its CR LF. */
export function meaningOf(line: string, jobBytesMax: number): LineMeaning {
  if (line.includes("\0")) return meaning("nul", ["BAD_FORMAT"]);
  const word = WORDS.find((each) => line.startsWith(each));
  if (word === undefined) return meaning("unknown", ["UNKNOWN_COMMAND"]);
  return meaningOfCommand(word.trimEnd(), line.slice(word.length), jobBytesMax);
}

function meaningOfCommand(command: string, rest: string, jobBytesMax: number): LineMeaning {
  const bad = meaning(command, ["BAD_FORMAT"]);
  if (command === "put") return meaningOfPut(rest, jobBytesMax);
  if (command === "put-in-tube") return meaningOfPutInTube(rest, jobBytesMax);
  const ofSchedules = meaningOfSchedules(command, rest, jobBytesMax);
  if (ofSchedules !== undefined) return ofSchedules;
  if (command === "update-job") return meaningOfUpdate(rest);
  const ofJob = OF_JOB[command];
  if (ofJob !== undefined) return meaningOfJob(command, rest, ofJob);
  const ofTube = OF_TUBE[command];
  if (ofTube !== undefined) return meaningOfTube(command, rest, ofTube.options, ofTube.replies);
  if (command === "set-tube") return meaningOfSetTube(rest);
  if (command === "move-jobs") return meaningOfMove(rest);
  if (command === "reserve-batch") return meaningOfReserveBatch(rest);
  if (command === "delete-batch") return meaningOfDeleteBatch(rest);
  if (command === "kick") return meaningOfKick(rest);
  if (command === "reserve-with-timeout") return meaningOfTimeout(rest);
  if (command === "pause-tube") return meaningOfPause(rest);
  if (command === "quit") return meaning(command, [], { after: { kind: "end" } });
  const matched = BY_PATTERN[command];
  if (matched !== undefined) return matched[0].test(rest) ? meaning(command, matched[1]) : bad;
  if (command === "list-batches") return meaningOfListBatches(rest);
  const byId = BY_ID[command];
  if (byId !== undefined) return meaningById(command, rest, byId);
  const named = BY_NAME[command];
  if (named !== undefined) return meaningByName(command, rest, named);
  if (rest !== "") return bad;
  return meaning(command, BARE[command] ?? [], { mayWait: command === "reserve" });
}

/** A command by id, or with a reason behind its numbers (18.13). */
function meaningById(
  command: string,
  rest: string,
  [pattern, replies]: readonly [pattern: RegExp, replies: readonly string[]],
): LineMeaning {
  const bad = meaning(command, ["BAD_FORMAT"]);
  const reason = /^bury$|^release$/.test(command) ? /^(.*\d) +reason=([^ ]+)$/s.exec(rest) : null;
  const [, id, ...numbers] = pattern.exec(reason?.[1] ?? rest) ?? [];
  if (id === undefined || !fits(id, U64_MAX)) return bad;
  const delays = Number(numbers[1] ?? 0) > 0;
  if (!numbers.every((number) => fits(number, U32_MAX))) return bad;
  if (reason === null) return meaning(command, replies, { delays });
  const isReason = isText(reason[2]!) && reason[2]!.replace(/%../g, "x").length <= 1024;
  return isReason ? meaning(command, replies, { delays, differsFrom112: true }) : bad;
}

function meaningOfPut(rest: string, jobBytesMax: number): LineMeaning {
  const bad = meaning("put", ["BAD_FORMAT"]);
  const match = /^ *(\d+) +(\d+) +(\d+) +(\d+)(.*)$/s.exec(rest);
  if (match === null || !match.slice(1, 5).every((number) => fits(number, U32_MAX))) return bad;
  const bytes = Number(match[4]);
  if (bytes > jobBytesMax)
    return meaning("put", ["JOB_TOO_BIG"], { after: { kind: "dropped", bytes: bytes + 2 } });
  if (match[5] !== "") return bad;
  return meaning("put", ["INSERTED {int}"], {
    after: { kind: "body", bytes },
    delays: Number(match[2]) > 0,
  });
}

const DURATION = /^(\d+)(?:\.(\d{1,3}))?$/;

/** Returns whether a text is a duration, and how many milliseconds. */
function millisecondsOf(text: string): number | undefined {
  const [, seconds, decimals = ""] = DURATION.exec(text) ?? [];
  if (seconds === undefined || !fits(seconds, U32_MAX)) return undefined;
  return Number(seconds) * 1000 + Number(decimals.padEnd(3, "0"));
}

/** Allowed values of an option. */
type IsValue = (value: string) => boolean;
type Options = Readonly<Record<string, IsValue>>;

const numberTo =
  (max: bigint, min = 0n): IsValue =>
  (value) =>
    /^\d+$/.test(value) && BigInt(value) >= min && BigInt(value) <= max;
const isDuration: IsValue = (value) => millisecondsOf(value) !== undefined;
const isText: IsValue = (value) => /^(?:[\x21-\x24\x26-\x7e\x80-\xff]|%[0-9a-fA-F]{2})+$/.test(value);
const isStates: IsValue = (value) =>
  value.split(",").every((word) => ["ready", "delayed", "buried", "reserved"].includes(word));

const FILTERS: Options = { state: isStates, older: isDuration, contains: isText, group: isText };

/** Commands with a tube and maybe options (18.6, 18.8, 18.9), and what they answer. */
const OF_TUBE: Readonly<Record<string, { options?: Options; replies: readonly string[] }>> = {
  "inspect-tube": { replies: ["OK {int}", "NOT_FOUND"] },
  "list-jobs": {
    options: {
      ...FILTERS,
      after: numberTo(2n ** 53n - 1n),
      limit: numberTo(1000n, 1n),
      show: numberTo(4096n),
    },
    replies: ["OK {int}"],
  },
  "finished-jobs": {
    options: { before: numberTo(2n ** 53n - 1n), limit: numberTo(1000n, 1n) },
    replies: ["OK {int}"],
  },
  "clear-tube": { options: { ...FILTERS, limit: numberTo(U32_MAX, 1n) }, replies: ["CLEARED {int}"] },
  "open-batch": { options: { keep: isDuration }, replies: ["OPENED", "BATCH_EXISTS"] },
  "commit-batch": { replies: ["COMMITTED", "BATCH_CANCELLED", "NOT_FOUND"] },
  "cancel-batch": { replies: ["CANCELLED", "BATCH_COMPLETE", "NOT_FOUND"] },
  "inspect-batch": { replies: ["OK {int}", "NOT_FOUND"] },
};

const EXCLUDED: Readonly<Record<string, string>> = { "after-any": "after", after: "after-any" };

/**
 * The first thing that is wrong with the options at the end of a line, which are those of `known`.
 */
function wrongOption(text: string, known: Options): string | undefined {
  if (text === "") return undefined;
  const given = new Set<string>();
  for (const option of text.replace(/^ +/, "").split(/ +/)) {
    const [, name, value = ""] = /^([a-z-]{1,32})=(.*)$/s.exec(option) ?? [];
    if (name === undefined) return "BAD_FORMAT";
    const isValue = Object.hasOwn(known, name) ? known[name] : undefined;
    if (isValue === undefined) return `UNKNOWN_OPTION ${name}`;
    if (value.length > 200 || given.has(name) || given.has(EXCLUDED[name] ?? name) || !isValue(value))
      return "BAD_FORMAT";
    given.add(name);
  }
  return undefined;
}

function meaningOfTube(
  command: string,
  rest: string,
  known: Options | undefined,
  replies: readonly string[],
): LineMeaning {
  const [, tube = "", options = ""] = /^ *([^ ]*)(.*)$/s.exec(rest) ?? [];
  const isGood = NAME.test(tube) || (command === "list-jobs" && tube === "*");
  if (!isGood || (known === undefined && options !== "")) return meaning(command, ["BAD_FORMAT"]);
  if (known === undefined) return meaning(command, replies);
  const wrong = wrongOption(options, known);
  return meaning(command, wrong === undefined ? replies : [wrong]);
}

const CHANGES: Options = {
  ttl: isDuration,
  tube: (value) => NAME.test(value),
  pri: numberTo(U32_MAX),
  delay: isDuration,
  ttr: numberTo(U32_MAX),
};

/** 18.7: at least one option. */
function meaningOfUpdate(rest: string): LineMeaning {
  const command = "update-job";
  const [, id, options = ""] = /^ *(\d+)(?=$| )(.*)$/s.exec(rest) ?? [];
  if (id === undefined || !fits(id, U64_MAX) || options === "") return meaning(command, ["BAD_FORMAT"]);
  const wrong = wrongOption(options, CHANGES);
  if (wrong !== undefined) return meaning(command, [wrong]);
  const [, seconds = "0", decimals = "0"] = / delay=(\d+)(?:\.(\d+))?/.exec(options) ?? [];
  const delays = Number(seconds) > 0 || Number(decimals) > 0;
  return meaning(command, ["UPDATED", "NOT_FOUND"], { delays });
}

/** Commands with an id and maybe options (18.14), and what they answer. */
const OF_JOB: Readonly<Record<string, readonly [options: Options, replies: readonly string[]]>> = {
  "touch-job": [
    { progress: numberTo(100n), note: (value) => value === "" || isText(value) },
    ["TOUCHED", "TOUCHED cancelled={any}", "NOT_FOUND"],
  ],
  "cancel-job": [{ reason: isText }, ["CANCELLED", "CANCELLING", "NOT_FOUND"]],
};

function meaningOfJob(
  command: string,
  rest: string,
  [known, replies]: readonly [options: Options, replies: readonly string[]],
): LineMeaning {
  const [, id, options = ""] = /^ *(\d+)(?=$| )(.*)$/s.exec(rest) ?? [];
  if (id === undefined || !fits(id, U64_MAX)) return meaning(command, ["BAD_FORMAT"]);
  const wrong = wrongOption(options, known);
  return meaning(command, wrong === undefined ? replies : [wrong]);
}

const isKey = (text: string): boolean => text !== "" && !/[\p{Cc} ]/u.test(text.replace(/[\x80-\x9f]/g, ""));
const orNothing =
  (isGood: (text: string) => boolean) =>
  (text: string): boolean =>
    text === "" || isGood(text);
const upTo =
  (min: bigint, max: bigint) =>
  (text: string): boolean =>
    /^\d+$/.test(text) && fits(text, max) && BigInt(text) >= min;

const PUT_OPTIONS: Options = {
  unique: isKey,
  "unique-for": isDuration,
  "unique-until": (text) => text === "delete" || text === "reserve",
  ttl: isDuration,
  group: isKey,
  weight: upTo(1n, 1000n),
  cost: upTo(1n, 1000n),
  "on-duplicate": (text) => ["refuse", "keep", "replace", "escalate", "debounce"].includes(text),
  "debounce-max": isDuration,
  batch: (text) => NAME.test(text),
  after: (text) => NAME.test(text),
  "after-any": (text) => NAME.test(text),
  meta: (text) => isKey(text) && /^[-A-Za-z0-9._]+:/.test(text),
};
const isRate = (text: string): boolean => {
  const [, jobs, seconds] = /^(\d+)\/(\d+)$/.exec(text) ?? [];
  return [jobs, seconds].every(
    (number) => number !== undefined && fits(number, U32_MAX) && BigInt(number) > 0n,
  );
};
const SETTINGS: Options = {
  "max-attempts": orNothing(upTo(1n, U32_MAX)),
  "dead-letter": orNothing((text) => NAME.test(text)),
  backoff: orNothing(isDuration),
  "backoff-max": orNothing(isDuration),
  ttl: orNothing(isDuration),
  expire: orNothing((text) => text === "delete" || text === "bury"),
  "max-jobs": orNothing(upTo(0n, U32_MAX)),
  "max-bytes": orNothing(upTo(0n, BigInt(Number.MAX_SAFE_INTEGER))),
  "max-reserved": orNothing(upTo(1n, U32_MAX)),
  rate: orNothing(isRate),
  burst: orNothing(upTo(1n, U32_MAX)),
  "group-max-reserved": orNothing(upTo(1n, U32_MAX)),
  "group-rate": orNothing(isRate),
  "group-burst": orNothing(upTo(1n, U32_MAX)),
  "max-groups": orNothing(upTo(0n, U32_MAX)),
  "keep-finished": orNothing(upTo(0n, 10_000n)),
  paused: orNothing((text) => text === "yes" || text === "no"),
};

const MOVES: Options = {
  ...FILTERS,
  state: (value) => isStates(value) && !value.includes("reserved"),
  as: (value) => value === "ready",
  limit: numberTo(U32_MAX, 1n),
};

function meaningOfListBatches(rest: string): LineMeaning {
  const number = numberTo(2n ** 53n - 1n);
  const known = { after: number, before: number, limit: numberTo(1000n, 1n) };
  const wrong = rest === "" || rest.startsWith(" ") ? wrongOption(rest, known) : "BAD_FORMAT";
  return meaning("list-batches", [wrong ?? "OK {int}"]);
}

function meaningOfMove(rest: string): LineMeaning {
  const [, tube = "", to = "", options = ""] = /^ *([^ ]+) +([^ ]+)(?=$| )(.*)$/s.exec(rest) ?? [];
  const isGood = NAME.test(tube) && (NAME.test(to) || to === "*");
  const wrong = isGood ? wrongOption(options, MOVES) : "BAD_FORMAT";
  return meaning("move-jobs", wrong === undefined ? ["MOVED {int}"] : [wrong]);
}

function meaningOfSetTube(rest: string): LineMeaning {
  const bad = meaning("set-tube", ["BAD_FORMAT"]);
  const [, pattern = "", options = ""] = /^ *([^ ]+)(?=$| )(.*)$/s.exec(rest) ?? [];
  if (!NAME.test(pattern) && pattern !== "*" && !(pattern.endsWith("*") && NAME.test(pattern.slice(0, -1))))
    return bad;
  if (options === "") return bad;
  const wrong = wrongOption(options, SETTINGS);
  return meaning("set-tube", [wrong ?? "SET"]);
}

const isYes: IsValue = (value) => value === "yes";
const BATCH_OPTIONS: Options = {
  bytes: numberTo(U32_MAX, 1n),
  min: numberTo(U32_MAX, 1n),
  linger: isDuration,
  "one-group": isYes,
  tubes: isYes,
  meta: isYes,
  abort: isYes,
};

function meaningOfReserveBatch(rest: string): LineMeaning {
  const command = "reserve-batch";
  const [, count, timeout = "", options = ""] = /^ *(\d+) +([^ ]+)(.*)$/s.exec(rest) ?? [];
  const timeoutMs = timeout === "-1" ? Number.POSITIVE_INFINITY : millisecondsOf(timeout);
  if (count === undefined || !fits(count, U32_MAX) || BigInt(count) === 0n || timeoutMs === undefined)
    return meaning(command, ["BAD_FORMAT"]);
  const wrong = wrongOption(options, BATCH_OPTIONS);
  if (wrong !== undefined) return meaning(command, [wrong]);
  const aborts = timeoutMs > 0 && options.includes("abort=yes") ? ["ABORTED"] : [];
  return meaning(command, ["RESERVED_BATCH {int}", "TIMED_OUT", "DEADLINE_SOON", ...aborts], {
    mayWait: timeoutMs > 0,
  });
}

function meaningOfDeleteBatch(rest: string): LineMeaning {
  const command = "delete-batch";
  const ids = rest.replace(/^ */, "").split(/ +/);
  const isGood = ids.length <= 1000 && ids.every((id) => id !== "" && fits(id, U64_MAX));
  return meaning(
    command,
    isGood ? ["DELETED_BATCH {int} {int}", "DELETED_BATCH {int} {int} {any}"] : ["BAD_FORMAT"],
  );
}

/** Bytes of a body that may replace another. */
const REPLACING_MAX = 65_536;

function meaningOfPutInTube(rest: string, jobBytesMax: number): LineMeaning {
  const command = "put-in-tube";
  const [, tube = "", pri, delay = "", ttr, bytes, options = ""] =
    /^ *([^ ]+) +(\d+) +([^ ]+) +(\d+) +(\d+)(?=$| )(.*)$/s.exec(rest) ?? [];
  const delayMs = millisecondsOf(delay);
  const isGood =
    NAME.test(tube) &&
    delayMs !== undefined &&
    [pri, ttr, bytes].every((number) => fits(number ?? "x", U32_MAX));
  if (!isGood) return meaning(command, ["BAD_FORMAT"]);
  const size = Number(bytes);
  const dropped: After = { kind: "dropped", bytes: size + 2 };
  if (size > jobBytesMax) return meaning(command, ["JOB_TOO_BIG"], { after: dropped });
  const wrong = wrongOption(options, PUT_OPTIONS);
  if (wrong !== undefined) return meaning(command, [wrong], { after: dropped });
  const others = ["DUPLICATE", "KEPT", "REPLACED", "ESCALATED", "DEBOUNCED"].map((word) => `${word} {int}`);
  const refusals = / (?:batch|after|after-any)=/.test(options)
    ? ["BATCH_NOT_FOUND", "BATCH_COMMITTED", "BATCH_ORDER"]
    : [];
  return meaning(
    command,
    ["INSERTED {int}", ...others, ...refusals, ...(size > REPLACING_MAX ? ["JOB_TOO_BIG"] : [])],
    {
      after: { kind: "body", bytes: size },
      delays: delayMs > 0 || options.includes(" after"),
    },
  );
}

const SCHEDULES: Options = {
  cron: isText,
  every: isDuration,
  tz: isKey,
  missed: (text) => ["once", "all", "none"].includes(text),
  overlap: (text) => ["allow", "skip"].includes(text),
  ttl: isDuration,
  group: isKey,
  weight: upTo(1n, 1000n),
  meta: PUT_OPTIONS["meta"]!,
};
const SCHEDULE_LISTS: Options = { tube: (text) => NAME.test(text), after: isKey, limit: upTo(1n, 1000n) };

/** Commands about schedules. */
function meaningOfSchedules(command: string, rest: string, jobBytesMax: number): LineMeaning | undefined {
  if (command === "set-schedule") return meaningOfSetSchedule(rest, jobBytesMax);
  const bad = meaning(command, ["BAD_FORMAT"]);
  if (command === "list-schedules") {
    if (/^[^ ]/.test(rest)) return bad;
    return meaning(command, [wrongOption(rest, SCHEDULE_LISTS) ?? "OK {int}"]);
  }
  const replies = BY_SCHEDULE[command];
  if (replies === undefined) return undefined;
  return SCHEDULE.test(rest) ? meaning(command, replies) : bad;
}

/** 18.30: a name, and then the line of a put-in-tube with other options. */
function meaningOfSetSchedule(rest: string, jobBytesMax: number): LineMeaning {
  const command = "set-schedule";
  const [, name = "", put = ""] = /^ *([^ ]+)( .*)$/s.exec(rest) ?? [];
  const [, line = "", options = ""] = /^((?: +[^ ]+){5})(.*)$/s.exec(put) ?? [];
  const { replies, after, delays } = meaningOfPutInTube(line, jobBytesMax);
  if (!SCHEDULE.test(name) || after.kind === "line") return meaning(command, ["BAD_FORMAT"]);
  if (after.kind !== "body") return meaning(command, replies, { after });
  const wrong = wrongOption(options, SCHEDULES);
  if (wrong !== undefined)
    return meaning(command, [wrong], { after: { kind: "dropped", bytes: after.bytes + 2 } });
  return meaning(command, ["SET", "BAD_SCHEDULE {any}", "JOB_TOO_BIG"], { after, delays });
}

function meaningOfKick(rest: string): LineMeaning {
  const match = /^[ \t\n\v\f\r]*([-+]?)(\d+)/.exec(rest);
  if (match === null || !fits(match[2], U64_MAX)) return meaning("kick", ["BAD_FORMAT"]);
  return meaning("kick", ["KICKED {int}"], { differsFrom112: match[1] === "-" || !fits(match[2], U32_MAX) });
}

function meaningOfTimeout(rest: string): LineMeaning {
  const command = "reserve-with-timeout";
  if (/^ *-1(?!\d)/.test(rest)) return meaning(command, WAITED, { mayWait: true });
  const [, digits] = /^ *(\d+)/.exec(rest) ?? [];
  if (digits === undefined || !fits(digits, TIMEOUT_MAX)) {
    return meaning(command, ["BAD_FORMAT"], { differsFrom112: true });
  }
  return meaning(command, WAITED, { mayWait: BigInt(digits) > 0n });
}

function meaningOfPause(rest: string): LineMeaning {
  const match = /^ *([-A-Za-z0-9+/;.$_()]+) +(\d+)$/.exec(rest);
  const isGood = match !== null && NAME.test(match[1] ?? "") && fits(match[2], U32_MAX);
  return meaning("pause-tube", isGood ? ["PAUSED", "NOT_FOUND"] : ["BAD_FORMAT"]);
}

const patterns = new Map<string, BytePattern>();

/** Returns whether a reply line is one of those expected. */
export function isExpected(line: string, replies: readonly string[]): boolean {
  return replies.some((source) => {
    let pattern = patterns.get(source);
    if (pattern === undefined) {
      pattern = patternOf(source, source);
      // Names are in it that are drawn: it must not grow with the length of a campaign.
      if (patterns.size < 1000) patterns.set(source, pattern);
    }
    return pattern.matches(line);
  });
}
