// Sizes like "64M" and times like "30s", for files, variables and the flags that beanstalkd lacks.

const SIZE_UNITS: Readonly<Record<string, number>> = {
  "": 1,
  K: 2 ** 10,
  M: 2 ** 20,
  G: 2 ** 30,
  T: 2 ** 40,
};
const MS_UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * Returns the bytes of "4096", "64K", "8G" or "8GiB"; units are powers of 1024. Returns undefined
 * for other texts.
 */
export function parseSize(text: string): number | undefined {
  const [, digits, unit] = /^(\d+(?:\.\d+)?) ?([KMGT]?)(?:i?B)?$/i.exec(text.trim()) ?? [];
  if (digits === undefined) return undefined;
  const bytes = Number(digits) * SIZE_UNITS[unit!.toUpperCase()]!;
  return Number.isSafeInteger(Math.round(bytes)) ? Math.round(bytes) : undefined;
}

/**
 * Returns the milliseconds of "250ms", "30s", "10m", "12h" or "7d"; a bare number is in `bareUnit`.
 * Returns undefined for other texts.
 */
export function parseDurationMs(text: string, bareUnit: "ms" | "s"): number | undefined {
  const [, digits, unit] = /^(\d+(?:\.\d+)?) ?(ms|s|m|h|d)?$/.exec(text.trim()) ?? [];
  if (digits === undefined) return undefined;
  const ms = Number(digits) * MS_UNITS[unit ?? bareUnit]!;
  return Number.isSafeInteger(Math.round(ms)) ? Math.round(ms) : undefined;
}

/** Returns "64M" for 67108864: uses the largest unit that divides the number. */
export function sizeText(bytes: number): string {
  for (const unit of ["T", "G", "M", "K"]) {
    const factor = SIZE_UNITS[unit]!;
    if (bytes >= factor && bytes % factor === 0) return `${bytes / factor}${unit}`;
  }
  return `${bytes}`;
}
