// Delta debugging: the shortest list found that still fails.

/**
 * Zeller's ddmin, by complements: drops ever smaller parts as long as `fails` says so of the rest.
 * Nothing can be left out of the result by itself. `units` must fail, and is not tried again; an
 * empty list is not tried either. What `fails` throws ends the search.
 */
export async function shorten<Unit>(
  units: readonly Unit[],
  fails: (units: readonly Unit[]) => Promise<boolean>,
): Promise<readonly Unit[]> {
  let left = units;
  let part = Math.ceil(left.length / 2);
  while (left.length > 1) {
    let hasShrunk = false;
    for (let from = 0; from < left.length; ) {
      const rest = [...left.slice(0, from), ...left.slice(from + part)];
      if (rest.length > 0 && (await fails(rest))) {
        left = rest;
        hasShrunk = true;
      } else {
        from += part;
      }
    }
    if (!hasShrunk && part === 1) break;
    if (!hasShrunk) part = Math.ceil(part / 2);
    part = Math.min(part, left.length);
  }
  return left;
}
