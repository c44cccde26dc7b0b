// Names of the log's segments in their directory.

const NAME = /^runnerbean\.(\d{16})\.log$/;

export function segmentName(number: number): string {
  return `runnerbean.${String(number).padStart(16, "0")}.log`;
}

/** Returns the number in a segment's name, or 0 for other names. */
export function segmentNumber(name: string): number {
  const match = NAME.exec(name);
  return match === null ? 0 : Number(match[1]);
}
