// Settings for limits: connections, and memory for jobs.

import type { ConnectionLimits, KeepAlive } from "../../acceptor/admission/listener-policy.ts";
import { parseDurationMs } from "../../config/quantity.ts";
import { type Setting, SettingError } from "../../config/setting.ts";

interface Limited {
  limits: ConnectionLimits;
  /** Memory limit for jobs, in bytes; Infinity for no limit. */
  memoryBytesMax: number;
}

/** A smaller limit is certainly a mistake. */
const MEMORY_BYTES_MIN = 1 << 20;

/** Maximums of Linux: 32767 s between probes, and 127 probes. */
const KEEP_ALIVE_MS_MAX = 32_767_000;
const PROBES_MAX = 127;

function positive(text: string): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < 1) throw new SettingError(`${text} is not a whole number of at least 1`);
  return value;
}

const shown = (limit: number): number | undefined => (limit === Number.POSITIVE_INFINITY ? undefined : limit);

/**
 * Parses "60s,10s,3": idle time before the first probe, interval of the probes, and how many may be
 * lost.
 */
function parseKeepAlive(text: string): KeepAlive {
  const [delay = "", interval, count, ...rest] = text.split(",").map((part) => part.trim());
  const ms = (part: string): number => {
    const value = parseDurationMs(part, "s") ?? 0;
    if (value < 1000 || value > KEEP_ALIVE_MS_MAX)
      throw new SettingError(`${part} is not a time from 1s to 32767s`);
    return value;
  };
  const probes = count === undefined ? undefined : positive(count);
  if (rest.length > 0 || (probes ?? 1) > PROBES_MAX)
    throw new SettingError(
      `${text} is not of the form 60s,10s,3: idle time, time between probes, number of probes`,
    );
  return { delayMs: ms(delay), intervalMs: interval === undefined ? undefined : ms(interval), count: probes };
}

function keepAliveText({ delayMs, intervalMs, count }: KeepAlive): string {
  const seconds = (ms: number): string => `${ms / 1000}s`;
  return [
    seconds(delayMs),
    ...(intervalMs === undefined ? [] : [seconds(intervalMs)]),
    ...(count === undefined ? [] : [count]),
  ].join(",");
}

export const LIMIT_SETTINGS: readonly Setting<Limited>[] = [
  {
    key: "max-memory",
    flags: "--max-memory <size>",
    kind: "size",
    reloads: true,
    example: "8G",
    text: "memory limit for jobs and their bodies; puts beyond it get OUT_OF_MEMORY (default: no limit)",
    apply(options, bytes) {
      if (Number(bytes) < MEMORY_BYTES_MIN) throw new SettingError(`less than 1M is too little: ${bytes}`);
      options.memoryBytesMax = Number(bytes);
    },
    show: ({ memoryBytesMax }) => shown(memoryBytesMax),
  },
  {
    key: "max-connections",
    flags: "--max-connections <n>",
    kind: "number",
    plainFlag: true,
    reloads: true,
    example: 10_000,
    text: "limit for open connections; further ones are closed at once (default: as many as file descriptors allow)",
    apply(options, text) {
      options.limits = { ...options.limits, connections: positive(text) };
    },
    show: ({ limits }) => shown(limits.connections),
  },
  {
    key: "max-connections-per-address",
    flags: "--max-connections-per-address <n>",
    kind: "number",
    plainFlag: true,
    reloads: true,
    example: 1000,
    text: "the same limit for each client address (default: no limit)",
    apply(options, text) {
      options.limits = { ...options.limits, perAddress: positive(text) };
    },
    show: ({ limits }) => shown(limits.perAddress),
  },
  {
    key: "idle-timeout",
    flags: "--idle-timeout <time>",
    kind: "seconds",
    reloads: true,
    example: "10m",
    text: "close connections that have been idle for this long; one that waits for or holds a job is never idle (default: never)",
    apply(options, ms) {
      if (Number(ms) < 1000) throw new SettingError("it must be at least one second");
      options.limits = { ...options.limits, idleMs: Number(ms) };
    },
    show({ limits }) {
      const ms = shown(limits.idleMs);
      return ms === undefined ? undefined : ms / 1000;
    },
  },
  {
    key: "tcp-keepalive",
    flags: "--tcp-keepalive <times>",
    kind: "text",
    reloads: true,
    text: "idle time before the first probe, time between probes, number of lost probes: 60s,10s,3 (default 60s, and the system's values)",
    apply(options, text) {
      options.limits = { ...options.limits, keepAlive: parseKeepAlive(text) };
    },
    show: ({ limits }) => keepAliveText(limits.keepAlive),
  },
];
