// Quantile of a histogram, with linear interpolation within a bucket like Prometheus'
// histogram_quantile.

/**
 * Returns the quantile. `counts` has one more element than `bounds`. Returns null if nothing was
 * counted, and the last bound for a value above all bounds.
 */
export function bucketQuantile(
  counts: ArrayLike<number>,
  bounds: readonly number[],
  share: number,
): number | null {
  let all = 0;
  for (let bucket = 0; bucket <= bounds.length; bucket++) all += counts[bucket]!;
  if (all <= 0) return null;
  let below = 0;
  for (const [bucket, bound] of bounds.entries()) {
    const count = counts[bucket]!;
    if (count > 0 && below + count >= all * share) {
      const from = bucket === 0 ? 0 : bounds[bucket - 1]!;
      return from + ((bound - from) * Math.max(0, all * share - below)) / count;
    }
    below += count;
  }
  return bounds.at(-1)!;
}
