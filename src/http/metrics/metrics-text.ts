// Text of metrics, in Prometheus format 0.0.4 or OpenMetrics 1.0.
//
// It pauses after every few thousand lines, so that other requests don't wait for long.

import { setImmediate as pause } from "node:timers/promises";
import {
  type Metric,
  openMetricsContentType,
  prometheusContentType,
  Registry,
  type RegistryContentType,
} from "prom-client";

// Metrics as plain values: a family has a name, a help text, a type and samples. The client library
// renders them.

export type Labels = Readonly<Record<string, string | number>>;

export interface Sample {
  readonly value: number;
  readonly labels?: Labels;
  /** Suffix of the family's name in a histogram. */
  readonly suffix?: "_bucket" | "_sum" | "_count";
}

export interface Family {
  /** Without the prefix, and for counters without `_total`. */
  readonly name: string;
  readonly help: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly samples: readonly Sample[];
}

export const gauge = (name: string, help: string, samples: number | readonly Sample[]): Family => ({
  name,
  help,
  type: "gauge",
  samples: typeof samples === "number" ? [{ value: samples }] : samples,
});

export const counter = (name: string, help: string, samples: number | readonly Sample[]): Family => ({
  name,
  help,
  type: "counter",
  samples: typeof samples === "number" ? [{ value: samples }] : samples,
});

/** Counts per bucket, not cumulative; one more than there are bounds. */
export interface Counts {
  readonly counts: readonly number[];
  readonly sum: number;
}

export function histogram(
  name: string,
  help: string,
  bounds: readonly number[],
  series: readonly (Counts & { readonly labels?: Labels })[],
): Family {
  return {
    name,
    help,
    type: "histogram",
    samples: series.flatMap((each) => histogramSamples(bounds, each, each.labels ?? {})),
  };
}

function histogramSamples(bounds: readonly number[], { counts, sum }: Counts, labels: Labels): Sample[] {
  let count = 0;
  const samples: Sample[] = counts.map((each, index) => {
    count += each;
    const le = index < bounds.length ? `${bounds[index]}` : "+Inf";
    return { value: count, labels: { ...labels, le }, suffix: "_bucket" };
  });
  samples.push({ value: sum, labels, suffix: "_sum" }, { value: count, labels, suffix: "_count" });
  return samples;
}

const PREFIX = "runnerbean_";
/** About 10 ms of work. */
const LINES_A_SLICE = 3000;

interface MetricsText {
  readonly contentType: string;
  readonly text: string;
}

/** Tells whether the scraper wants OpenMetrics, as Prometheus states in its Accept header. */
export const wantsOpenMetrics = (accept: string | undefined): boolean =>
  accept?.includes("application/openmetrics-text") === true;

/** Families of the process begin with `process_` and get no prefix. */
const fullName = (name: string): string => (name.startsWith("process_") ? name : PREFIX + name);

export async function metricsText(families: Iterable<Family>, openMetrics: boolean): Promise<MetricsText> {
  const contentType = openMetrics ? openMetricsContentType : prometheusContentType;
  const registry = new Registry<RegistryContentType>();
  registry.setContentType(contentType);
  const parts: string[] = [];
  let lines = 0;
  for (const family of families) {
    for (const { samples, isFirst } of slicesOf(family.samples)) {
      const text = await familyText(registry, family, samples, openMetrics);
      // The two header lines of a family appear once.
      parts.push(isFirst ? text : text.split("\n").slice(2).join("\n"));
      lines += samples.length;
      if (lines < LINES_A_SLICE) continue;
      lines = 0;
      await pause();
    }
  }
  if (openMetrics) parts.push("# EOF");
  return { contentType, text: `${parts.filter((part) => part !== "").join("\n")}\n` };
}

function* slicesOf(samples: readonly Sample[]): Iterable<{ samples: readonly Sample[]; isFirst: boolean }> {
  for (let at = 0; at === 0 || at < samples.length; at += LINES_A_SLICE)
    yield { samples: samples.slice(at, at + LINES_A_SLICE), isFirst: at === 0 };
}

function familyText(
  registry: Registry<RegistryContentType>,
  { name, help, type }: Family,
  samples: readonly Sample[],
  openMetrics: boolean,
): Promise<string> {
  const base = fullName(name);
  // The library adds `_total` to the samples of a counter when the format wants the family's name
  // without it.
  const shown = type === "counter" && !openMetrics ? `${base}_total` : base;
  const values = samples.map(({ value, labels = {}, suffix = "" }) => ({
    value,
    labels: labels as Record<string, string | number>,
    metricName: shown + suffix,
  }));
  const metric = { name: shown, help, type, values, aggregator: "sum" };
  // The type is that of the library's own classes, of which it uses only these two properties.
  const registered: object = { name: shown, get: async () => metric };
  registry.registerMetric(registered as Metric);
  const text = registry.getSingleMetricAsString(shown);
  registry.removeSingleMetric(shown);
  return text;
}
