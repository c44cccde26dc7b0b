// The commands of the protocol. Numbers 1 to 22 are also the order of the cmd-* counters in `stats`.

export const Op = {
  Unknown: 0,
  Put: 1,
  Peek: 2,
  PeekReady: 3,
  PeekDelayed: 4,
  PeekBuried: 5,
  Reserve: 6,
  ReserveWithTimeout: 7,
  Delete: 8,
  Release: 9,
  Use: 10,
  Watch: 11,
  Ignore: 12,
  Bury: 13,
  Kick: 14,
  Touch: 15,
  Stats: 16,
  StatsJob: 17,
  StatsTube: 18,
  ListTubes: 19,
  ListTubeUsed: 20,
  ListTubesWatched: 21,
  PauseTube: 22,
  ReserveJob: 23,
  KickJob: 24,
  Quit: 25,
} as const;
export type Op = (typeof Op)[keyof typeof Op];

/** Commands up to this one have a counter in `stats`. */
export const LAST_COUNTED_OP = Op.PauseTube;

/** The command words as they are matched, with their trailing space; `-VV` prints them. */
export const OP_NAMES: readonly string[] = [
  "<unknown>",
  "put ",
  "peek ",
  "peek-ready",
  "peek-delayed",
  "peek-buried",
  "reserve",
  "reserve-with-timeout ",
  "delete ",
  "release ",
  "use ",
  "watch ",
  "ignore ",
  "bury ",
  "kick ",
  "touch ",
  "stats",
  "stats-job ",
  "stats-tube ",
  "list-tubes",
  "list-tube-used",
  "list-tubes-watched",
  "pause-tube",
  "reserve-job ",
  "kick-job ",
  "quit",
];
