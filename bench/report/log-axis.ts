// A logarithmic scale from values to pixels, with a tick at each power of ten.
interface LogAxis {
  at(value: number): number;
  readonly ticks: readonly number[];
}

export function logAxis(lowest: number, highest: number, fromPixel: number, toPixel: number): LogAxis {
  const low = Math.floor(Math.log10(lowest) + 1e-9);
  const high = Math.max(low + 1, Math.ceil(Math.log10(highest) - 1e-9));
  return {
    at: (value) => {
      const share = (Math.log10(Math.max(value, 10 ** low)) - low) / (high - low);
      return fromPixel + share * (toPixel - fromPixel);
    },
    ticks: Array.from({ length: high - low + 1 }, (_, i) => 10 ** (low + i)),
  };
}

/** Microseconds of a tick: a power of ten, so a whole number of some unit. */
export function tickMicros(micros: number): string {
  if (micros >= 1e6) return `${micros / 1e6} s`;
  return micros >= 1000 ? `${micros / 1000} ms` : `${micros} us`;
}
