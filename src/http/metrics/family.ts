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
