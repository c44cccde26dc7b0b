// Formats of numbers, sizes and times for people.

const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const EXACT = new Intl.NumberFormat("en");

/** 12,345. */
export const exact = (value: number): string => EXACT.format(value);

/** 12.3 k. */
export const short = (value: number): string =>
  SHORT.format(value).replace(/[KMBT]$/, (unit) => ` ${unit === "K" ? "k" : unit}`);

/** A rate per second: 0, < 0.1, 1.2, 1,234. */
export function rate(value: number): string {
  if (value === 0) return "0";
  if (Math.abs(value) < 0.05) return "< 0.1";
  return value < 9.95 ? value.toFixed(1) : exact(Math.round(value));
}

/** 3 min; "–" for none. */
export function duration(seconds: number | null): string {
  if (seconds === null) return "–";
  if (seconds === 0) return "0 s";
  if (seconds < 1) return "< 1 s";
  if (seconds < 120) return `${Math.floor(seconds)} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} days`;
}

/** 1.2 MB. */
export function bytes(value: number): string {
  if (value < 1000) return `${value} B`;
  const units = ["kB", "MB", "GB", "TB"];
  let rest = value;
  let unit = -1;
  while (rest >= 1000 && unit < units.length - 1) {
    rest /= 1000;
    unit++;
  }
  return `${rest < 10 ? rest.toFixed(1) : Math.round(rest)} ${units[unit]}`;
}

/** 1 tube, 12 tubes. */
export const tubes = (count: number): string => `${exact(count)} ${count === 1 ? "tube" : "tubes"}`;

/** 1 job, 12 jobs. */
export const jobs = (count: number): string => `${exact(count)} ${count === 1 ? "job" : "jobs"}`;

/** 0.25 ms, 1.5 s, 3 min; "–" for none. */
export const time = (seconds: number | null): string =>
  seconds === null || seconds >= 120 ? duration(seconds) : milliseconds(seconds);

/** 0.25 ms, 1.5 s. */
export const milliseconds = (seconds: number): string =>
  seconds < 1 ? `${+(seconds * 1000).toPrecision(2)} ms` : `${+seconds.toPrecision(2)} s`;
