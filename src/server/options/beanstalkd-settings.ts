// Settings that beanstalkd has too: addresses, the size of jobs, and the log.

import { SEGMENT_BYTES_MAX } from "../../binlog/format/segment-format.ts";
import { parseDurationMs, parseSize } from "../../config/quantity.ts";
import { type Setting, SettingError } from "../../config/setting.ts";
import { JOB_BYTES_MAX_DEFAULT, JOB_BYTES_MAX_LIMIT } from "../../protocol/limits.ts";
import { portNumber } from "./port-number.ts";

export interface BeanstalkdSettings {
  listen: string;
  port: string;
  user: string | undefined;
  jobBytesMax: number;
  /** Log directory; undefined for no log. */
  binlog: string | undefined;
  /** Maximum time between a logged change and its fsync; Infinity for never. */
  fsyncMs: number;
  binlogBytes: number;
  /** Notices to log once logging is set up. */
  notices: string[];
}

const BINLOG_BYTES_DEFAULT = 10485760;
const FSYNC_MS_DEFAULT = 50;

export function beanstalkdDefaults(): BeanstalkdSettings {
  return {
    listen: "127.0.0.1",
    port: "11300",
    user: undefined,
    jobBytesMax: JOB_BYTES_MAX_DEFAULT,
    binlog: undefined,
    fsyncMs: FSYNC_MS_DEFAULT,
    binlogBytes: BINLOG_BYTES_DEFAULT,
    notices: [],
  };
}

const BYTES = 'bytes, as 65536, "64K" or "8G"';
const MILLISECONDS = 'milliseconds, or a time such as "250ms" or "30s"';

/** Takes digits in beanstalkd's form, and units as the file does. Throws SettingError. */
function quantity(flag: string, unit: typeof BYTES | typeof MILLISECONDS, text: string, max: number): number {
  const isPlain = /^[ \t]*\+?[0-9]+$/.test(text);
  const value = isPlain ? Number(text) : unit === BYTES ? parseSize(text) : parseDurationMs(text, "ms");
  if (value !== undefined && value <= max) return value;
  const bound = max === Number.POSITIVE_INFINITY ? "" : `, at most ${max}`;
  throw new SettingError(`invalid size: ${text} (${flag} takes ${unit}${bound})`);
}

export const BEANSTALKD_SETTINGS: readonly Setting<BeanstalkdSettings>[] = [
  {
    key: "binlog",
    flags: "-b, --binlog <dir>",
    kind: "text",
    text: "keep a write-ahead log in this directory: acknowledged changes survive a restart",
    example: "/var/lib/runnerbean",
    apply(options, dir) {
      options.binlog = dir === "" ? "/" : dir;
    },
    show: ({ binlog }) => binlog,
  },
  {
    key: "fsync",
    flags: "-f, --fsync <ms>",
    kind: "milliseconds",
    plainFlag: true,
    text: `with -b: fsync at most this many milliseconds after a change; 0: before each reply (default ${FSYNC_MS_DEFAULT})`,
    apply(options, ms) {
      options.fsyncMs = quantity("-f", MILLISECONDS, ms, 2 ** 31);
    },
    show: ({ fsyncMs }) => (fsyncMs === Number.POSITIVE_INFINITY ? undefined : fsyncMs),
  },
  {
    key: "never-fsync",
    flags: "-F, --never-fsync",
    kind: "switch",
    text: "with -b: never fsync; the kernel decides when the log reaches the disk",
    set(options, on) {
      if (on) options.fsyncMs = Number.POSITIVE_INFINITY;
      else if (options.fsyncMs === Number.POSITIVE_INFINITY) options.fsyncMs = FSYNC_MS_DEFAULT;
    },
    show: ({ fsyncMs }) => fsyncMs === Number.POSITIVE_INFINITY,
  },
  {
    key: "listen",
    flags: "-l, --listen <addr>",
    kind: "text",
    text: "address or name to listen on, unix:PATH, or none if --config defines listeners (default 127.0.0.1; 0.0.0.0 for all)",
    apply(options, address) {
      options.listen = address;
    },
    show: ({ listen }) => listen,
  },
  {
    key: "port",
    flags: "-p, --port <port>",
    kind: "port",
    text: "TCP port or service name (default 11300; 0 picks a free port)",
    apply(options, port) {
      portNumber(port);
      options.port = port;
    },
    show: ({ port }) => (/^\d+$/.test(port) ? Number(port) : port),
  },
  {
    key: "binlog-size",
    flags: "-s, --binlog-size <bytes>",
    kind: "size",
    plainFlag: true,
    text: `with -b: size of one log file (default ${BINLOG_BYTES_DEFAULT}, at most ${SEGMENT_BYTES_MAX})`,
    apply(options, bytes) {
      options.binlogBytes = quantity("-s", BYTES, bytes, SEGMENT_BYTES_MAX);
    },
    show: ({ binlogBytes }) => binlogBytes,
  },
  {
    key: "user",
    flags: "-u, --user <user>",
    kind: "text",
    text: "switch to this user and its groups after binding",
    example: "runnerbean",
    apply(options, user) {
      options.user = user;
    },
    show: ({ user }) => user,
  },
  {
    key: "max-job-size",
    flags: "-z, --max-job-size <bytes>",
    kind: "size",
    plainFlag: true,
    text: `maximum size of a job body (default ${JOB_BYTES_MAX_DEFAULT}, at most ${JOB_BYTES_MAX_LIMIT})`,
    apply(options, bytes) {
      options.jobBytesMax = quantity("-z", BYTES, bytes, Number.POSITIVE_INFINITY);
      if (options.jobBytesMax <= JOB_BYTES_MAX_LIMIT) return;
      options.jobBytesMax = JOB_BYTES_MAX_LIMIT;
      options.notices.push(`maximum job size was set to ${JOB_BYTES_MAX_LIMIT}`);
    },
    show: ({ jobBytesMax }) => jobBytesMax,
  },
];
