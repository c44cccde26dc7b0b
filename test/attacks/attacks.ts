// Table of attacks: one client pipelines one command over very many objects. Each row has the
// number of lines that prepare it, the pipelined command, and whether beanstalkd has it.
//
// test/attacks/attacks.test.ts judges each row in one process; `npm run attacks` measures them on
// the running server, beside beanstalkd.

/** Commands that are pipelined: as many as a connection may have under way. */
export const DEPTH = 256;

export interface Attack {
  readonly name: string;
  /** Lines, with bodies, that make `count` of something; the attacker sends them. */
  readonly prepare: (count: number) => Iterable<string>;
  /** Command number n of the pipeline. */
  readonly line: (n: number, count: number) => string;
  /** beanstalkd has all commands of the row. */
  readonly beanstalkd: boolean;
  /** Other clients that wait for a job of the tube `crowded`. */
  readonly waiters?: number;
  /** How they wait, unless by `reserve`. */
  readonly waits?: string;
}

function* lines(count: number, line: (n: number) => string): Iterable<string> {
  for (let n = 0; n < count; n++) yield `${line(n)}\r\n`;
}

function* both(...parts: Iterable<string>[]): Iterable<string> {
  for (const part of parts) yield* part;
}

const put = "put 5 0 600 1\r\nx";
const jobs = (count: number): Iterable<string> =>
  both(
    ["use big\r\n"],
    lines(count, () => put),
  );
const held = (count: number): Iterable<string> =>
  both(
    jobs(count),
    ["watch big\r\n"],
    lines(count, () => "reserve-with-timeout 0"),
  );
const tubes = (count: number): Iterable<string> => lines(count, (n) => `use q${n}\r\n${put}`);
const watched = (count: number): Iterable<string> => lines(count, (n) => `watch q${n}`);
/** A job of each group, of different costs. */
const ofGroups = (count: number): Iterable<string> =>
  lines(count, (n) => `put-in-tube g 5 0 600 1 group=k${n} cost=${(n % 7) + 1}\r\nx`);
const batches = (count: number): Iterable<string> => lines(count, (n) => `open-batch b${n}`);
/** A schedule for each name, on one shard; the names fall, so that each is before all others. */
const schedules = (count: number): Iterable<string> =>
  lines(Math.min(count, 10_000), (n) => `set-schedule s${10_000 - n} t${n} 0 0 60 1 every=3600\r\nx`);
const small = ["use small\r\n", `${put}\r\n`];

/** A thousand ids of jobs, or of none. */
const ids = (from: number): string => Array.from({ length: 1000 }, (_, index) => from + index).join(" ");

// biome-ignore format: a table
export const ATTACKS: readonly Attack[] = [
  { name: "reserve over ready tubes", prepare: (count) => both(tubes(count), watched(count)),
    line: () => "reserve-with-timeout 0", beanstalkd: true },
  { name: "reserve-batch of 1 over ready tubes", prepare: (count) => both(tubes(count), watched(count)),
    line: () => "reserve-batch 1 0", beanstalkd: false },
  { name: "reserve over tubes without jobs", prepare: watched,
    line: () => "reserve-with-timeout 0", beanstalkd: true },
  { name: "watch and ignore with many watched tubes", prepare: (count) => both(tubes(count), watched(count)),
    line: (n) => (n % 2 === 0 ? "ignore q7" : "watch q7"), beanstalkd: true },
  { name: "list-tubes-watched", prepare: watched, line: () => "list-tubes-watched", beanstalkd: true },
  { name: "list-tubes", prepare: tubes, line: () => "list-tubes", beanstalkd: true },
  { name: "stats with many tubes", prepare: tubes, line: () => "stats", beanstalkd: true },
  { name: "stats-tube with many waiting clients", prepare: () => ["use crowded\r\n"], waiters: 400,
    line: () => "stats-tube crowded", beanstalkd: true },
  { name: "put with many waiting clients", prepare: () => ["use crowded\r\n"], waiters: 400,
    line: () => put, beanstalkd: true },
  { name: "put with many clients that wait for a batch of two tubes", prepare: () => [], waiters: 400,
    waits: "watch other\r\nreserve-batch 1000 600 min=1000",
    line: (n) => `put-in-tube ${n % 2 === 0 ? "crowded" : "other"} 5 0 600 1\r\nx`, beanstalkd: false },
  { name: "kick of delayed jobs", prepare: (count) => both(["use big\r\n"], lines(count, () => "put 5 600 600 1\r\nx")),
    line: (_, count) => `kick ${count >> 8}`, beanstalkd: true },
  { name: "kick of buried jobs", prepare: (count) => both(held(count), lines(count, (n) => `bury ${n + 1} 5`)),
    line: (_, count) => `kick ${count >> 8}`, beanstalkd: true },
  { name: "delete of ready jobs", prepare: jobs, line: (n) => `delete ${n * 17 + 1}`, beanstalkd: true },
  { name: "release of one of many held jobs", prepare: held, line: (n) => `release ${n + 1} 5 0`, beanstalkd: true },
  { name: "touch of one of many held jobs", prepare: held, line: (n) => `touch ${n + 1}`, beanstalkd: true },
  { name: "pause-tube with many paused tubes", prepare: (count) => both(tubes(count), lines(count, (n) => `pause-tube q${n} 600`)),
    line: (n) => `pause-tube q${n} 0`, beanstalkd: true },
  { name: "delete-batch of ready jobs", prepare: jobs, line: (n) => `delete-batch ${ids((n * 1000) % 9000 + 1)}`, beanstalkd: false },
  { name: "touch-all with many held jobs", prepare: held, line: () => "touch-all", beanstalkd: false },
  { name: "clear-tube that looks for a text among many jobs", prepare: (count) => both(jobs(count), small),
    line: () => "clear-tube small contains=zz", beanstalkd: false },
  { name: "list-jobs of all tubes", prepare: jobs, line: () => "list-jobs * limit=1000", beanstalkd: false },
  { name: "finished-jobs of a tube with many ends", prepare: (count) =>
      both(["set-tube ended keep-finished=10000\r\n"], lines(count, () => "put-in-tube ended 0 0 60 1\r\nx"), ["clear-tube ended\r\n"]),
    line: () => "finished-jobs ended limit=1000", beanstalkd: false },
  { name: "list-jobs that finds nothing", prepare: (count) => both(jobs(count), small),
    line: () => "list-jobs small state=buried", beanstalkd: false },
  { name: "move-jobs there and back", prepare: jobs,
    line: (n) => (n % 2 === 0 ? "move-jobs big other" : "move-jobs other big"), beanstalkd: false },
  { name: "set-tube of all tubes", prepare: tubes, line: (n) => `set-tube * max-jobs=${n + 5}`, beanstalkd: false },
  { name: "put with many settings", prepare: (count) => lines(Math.min(count, 9000), (n) => `set-tube p${n} max-jobs=5`),
    line: (n) => `put-in-tube p${n} 0 0 60 1\r\nx`, beanstalkd: false },
  { name: "reserve from a tube with many groups",
    prepare: (count) => both(["watch g\r\n"], lines(count, (n) => `put-in-tube g 5 0 600 1 group=k${n}\r\nx`)),
    line: () => "reserve-with-timeout 0", beanstalkd: false },
  { name: "reserve from a tube with many groups and rates",
    prepare: (count) => both(["watch g\r\n", "set-tube g group-rate=1/600\r\n"], ofGroups(count), ofGroups(count)),
    line: () => "reserve-with-timeout 0", beanstalkd: false },
  { name: "reserve from many groups that have their tokens again",
    prepare: (count) => both(["watch g\r\n", "set-tube g group-rate=1/1\r\n"], ofGroups(count), ofGroups(count), lines(count, () => "reserve-with-timeout 0")),
    line: () => "reserve-with-timeout 0", beanstalkd: false },
  { name: "set-tube of the rate of many groups", prepare: (count) => both(["watch g\r\n"], ofGroups(count)),
    line: (n) => `set-tube g group-rate=${(n % 3) + 1}/60 group-max-reserved=${(n % 2) + 1}`, beanstalkd: false },
  { name: "put and delete of one job for many groups with rates", prepare: () => ["set-tube g group-rate=1/600\r\n", "watch g\r\n"],
    line: (n) => `put-in-tube g 5 0 600 1 group=k${n}\r\nx\r\nreserve-with-timeout 0`, beanstalkd: false },
  { name: "put with many unique keys", prepare: (count) => lines(count, (n) => `put-in-tube u 5 0 600 1 unique=k${n}\r\nx`),
    line: (n) => `put-in-tube u 5 0 600 1 unique=k${n}\r\nx`, beanstalkd: false },
  { name: "inspect-tube with many groups",
    prepare: (count) => lines(count, (n) => `put-in-tube g 5 0 600 1 group=k${n}\r\nx`),
    line: () => "inspect-tube g", beanstalkd: false },
  { name: "reserve by weight over ready tubes", prepare: (count) => both(tubes(count), watched(count), ["reserve-order weighted\r\n"]),
    line: () => "reserve-with-timeout 0", beanstalkd: false },
  { name: "reserve-order with many held jobs", prepare: held,
    line: (n) => (n % 2 === 0 ? "reserve-order weighted-time" : "reserve-order strict"), beanstalkd: false },
  { name: "inspect-watched", prepare: watched, line: () => "inspect-watched", beanstalkd: false },
  { name: "set-schedule with an expression", prepare: () => [],
    line: (n) => `set-schedule s${n} t 0 0 60 1 cron=${n % 60}_2_29_2_* tz=Europe/Berlin\r\nx`, beanstalkd: false },
  { name: "set-schedule with a rare time", prepare: () => [],
    line: (n) => `set-schedule s${n} t 0 0 60 1 cron=${n % 60}_2_29_2_+MON tz=Europe/Berlin\r\nx`, beanstalkd: false },
  { name: "set-schedule that is refused", prepare: () => [],
    line: (n) => `set-schedule s t 0 0 60 1 cron=${n % 60}_*_2-2/1_*_3_SUN#L tz=Europe/Berlin\r\nx`, beanstalkd: false },
  { name: "set-schedule among many", prepare: schedules,
    line: (n) => `set-schedule s${n} t 0 0 60 1 every=${n + 60}\r\nx`, beanstalkd: false },
  { name: "list-schedules", prepare: schedules, line: () => "list-schedules limit=1000", beanstalkd: false },
  { name: "list-schedules of one tube", prepare: schedules,
    line: (n) => `list-schedules tube=t${n} limit=1000`, beanstalkd: false },
  { name: "inspect-schedule with rare times",
    prepare: () => lines(DEPTH, (n) => `set-schedule s${n} t 0 0 60 1 cron=${n % 60}_2_29_2_+MON tz=Europe/Berlin\r\nx`),
    line: (n) => `inspect-schedule s${n}`, beanstalkd: false },
  { name: "run-schedule among many", prepare: schedules, line: (n) => `run-schedule s${n + 1}`, beanstalkd: false },
  { name: "pause-schedule and resume-schedule among many", prepare: schedules,
    line: (n) => `${n % 2 === 0 ? "pause" : "resume"}-schedule s${(n >> 1) + 1}`, beanstalkd: false },
  { name: "delete-schedule among many", prepare: schedules, line: (n) => `delete-schedule s${n + 1}`, beanstalkd: false },
  { name: "open-batch among many", prepare: batches, line: (n) => `open-batch c${n}`, beanstalkd: false },
  { name: "inspect-batch of one of many", prepare: batches, line: (n) => `inspect-batch b${n}`, beanstalkd: false },
  { name: "commit-batch of one of many", prepare: batches, line: (n) => `commit-batch b${n}`, beanstalkd: false },
  { name: "cancel-batch of one of many", prepare: batches, line: (n) => `cancel-batch b${n}`, beanstalkd: false },
  { name: "list-batches", prepare: batches, line: () => "list-batches limit=1000", beanstalkd: false },
  { name: "list-batches from the newest", prepare: batches,
    line: () => "list-batches before=9007199254740991 limit=1000", beanstalkd: false },
  { name: "list-batches behind forgotten ones",
    prepare: (count) => both(lines(count, (n) => `open-batch b${n} keep=0`), lines(count >> 1, (n) => `cancel-batch b${n}`)),
    line: () => "list-batches limit=1", beanstalkd: false },
  { name: "put of members and of jobs that wait for one of many batches", prepare: batches,
    line: (n) => `put-in-tube t 5 0 600 1 batch=b${2 * n + 1} after=b${2 * n}\r\nx`, beanstalkd: false },
  { name: "cancel-batch with many members",
    prepare: (count) => both(["open-batch b\r\n"], lines(count, () => "put-in-tube big 5 0 600 1 batch=b\r\nx")),
    line: () => "cancel-batch b", beanstalkd: false },
  { name: "commit-batch that many jobs wait for",
    prepare: (count) => both(["open-batch b\r\n"], lines(count, () => "put-in-tube big 5 0 600 1 after=b\r\nx")),
    line: () => "commit-batch b", beanstalkd: false },
  { name: "update-job among many jobs", prepare: jobs, line: (n) => `update-job ${n + 1} pri=${n % 7}`, beanstalkd: false },
];

/**
 * Commands that look at one job or tube, or at what their connection knows, whatever else there is.
 */
export const CONSTANT: readonly string[] = [
  "peek",
  "peek-ready",
  "peek-delayed",
  "peek-buried",
  "reserve",
  "use",
  "bury",
  "stats-job",
  "list-tube-used",
  "reserve-job",
  "kick-job",
  "touch-job",
  "cancel-job",
  "name",
  "quit",
  "extensions",
  "origins",
  "inspect-job",
];
