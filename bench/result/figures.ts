// Figures that can be measured, their format, and which direction is better.
export const FIGURES = {
  commandsPerSecond: { label: "commands/s", unit: "/s", better: "more" },
  cpuPerCommand: { label: "CPU per command", unit: "us", better: "less" },
  p50: { label: "p50", unit: "us", better: "less" },
  p99: { label: "p99", unit: "us", better: "less" },
  p999: { label: "p99.9", unit: "us", better: "less" },
  max: { label: "max", unit: "us", better: "less" },
  residentBytes: { label: "resident memory", unit: "bytes", better: "less" },
  putP50: { label: "put, p50", unit: "us", better: "less" },
  putP99: { label: "put, p99", unit: "us", better: "less" },
  deliveryP50: { label: "put to RESERVED, p50", unit: "us", better: "less" },
  deliveryP99: { label: "put to RESERVED, p99", unit: "us", better: "less" },
  bytesPerJob: { label: "memory per job", unit: "bytes", better: "less" },
  startSeconds: { label: "start to first reply", unit: "s", better: "less" },
  logBytes: { label: "log on disk", unit: "bytes", better: "less" },
  putPerSecond: { label: "puts", unit: "/s", better: "more" },
  drainPerSecond: { label: "commands while draining", unit: "/s", better: "more" },
  fullBytes: { label: "resident memory, full", unit: "bytes", better: "less" },
  drainedBytes: { label: "resident memory, drained", unit: "bytes", better: "less" },
  listSeconds: { label: "list of all", unit: "s", better: "less" },
  searchSeconds: { label: "search in all", unit: "s", better: "less" },
  clearSeconds: { label: "clear of all", unit: "s", better: "less" },
  quietMax: { label: "others wait at most, before", unit: "us", better: "less" },
  listMax: { label: "while listed", unit: "us", better: "less" },
  searchMax: { label: "while searched", unit: "us", better: "less" },
  clearMax: { label: "while cleared", unit: "us", better: "less" },
  singlesPerSecond: { label: "jobs, single commands", unit: "/s", better: "more" },
  singlesCpu: { label: "CPU of the server a job", unit: "us", better: "less" },
  batchJobsPerSecond: { label: "jobs, batches", unit: "/s", better: "more" },
  batchCpu: { label: "CPU of the server a job in them", unit: "us", better: "less" },
  putCpu: { label: "CPU of the server a put", unit: "us", better: "less" },
  namedPutCpu: { label: "a put-in-tube", unit: "us", better: "less" },
  uniquePutCpu: { label: "a put-in-tube with unique=", unit: "us", better: "less" },
  uniqueRatio: { label: "unique to put", unit: "times", better: "less" },
  drainCpu: { label: "CPU a command of draining", unit: "us", better: "less" },
  uniqueDrainCpu: { label: "the same of unique jobs", unit: "us", better: "less" },
  groupedCpu: { label: "put, reserve, delete of a job with group=", unit: "us", better: "less" },
  memberCpu: { label: "the same with batch=", unit: "us", better: "less" },
  memberRatio: { label: "batch= to group=", unit: "times", better: "less" },
  memberBytes: { label: "memory a member takes more", unit: "bytes", better: "less" },
  scheduleCpu: { label: "CPU of a set-schedule", unit: "us", better: "less" },
  schedulesShare: { label: "all schedules, of a core", unit: "share", better: "less" },
  bytesPerKey: { label: "memory per remembered key", unit: "bytes", better: "less" },
} as const;

export type FigureName = keyof typeof FIGURES;
export type Figures = Partial<Record<FigureName, number>>;

export const FIGURE_NAMES = Object.keys(FIGURES) as FigureName[];

/** Figures in bytes, of one job or key. */
const BYTES_OF_ONE: ReadonlySet<FigureName> = new Set(["bytesPerJob", "bytesPerKey", "memberBytes"]);

const SCALES = [
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
] as const;

export function formatFigure(name: FigureName, value: number): string {
  const { unit } = FIGURES[name];
  switch (unit) {
    case "us":
      return name.toLowerCase().includes("cpu") && value < 100
        ? `${value.toPrecision(3)} us`
        : formatMicros(value);
    case "bytes":
      return BYTES_OF_ONE.has(name)
        ? `${value.toFixed(0)} B`
        : `${(value / 2 ** 20).toFixed(value < 2 ** 24 ? 1 : 0)} MiB`;
    case "s":
      return `${value.toFixed(2)} s`;
    case "times":
      return value.toFixed(2);
    case "share":
      return `${(value * 100).toFixed(3)} %`;
    case "/s":
      return formatCount(value);
  }
}

export function formatMicros(micros: number): string {
  if (micros < 1000) return `${micros.toFixed(0)} us`;
  if (micros < 1e6) return `${(micros / 1000).toPrecision(3)} ms`;
  return `${(micros / 1e6).toPrecision(3)} s`;
}

export function formatCount(n: number): string {
  for (const [size, letter] of SCALES)
    if (n >= size) return `${(n / size).toPrecision(n / size < 100 ? 3 : 4)} ${letter}`;
  return n.toFixed(0);
}
