// A quantile of what was counted by bounds, as histogram_quantile of Prometheus makes it: a straight line within a bucket.

/** `counts` has one more than there are bounds. Null where nothing was counted; the last bound for what is above all. */
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
