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
import type { Family, Sample } from "./family.ts";

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
