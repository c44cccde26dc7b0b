// Finds the known word closest to an unknown one, for "did you mean".

/** Maximum distance of a suggestion, as a share of the word's letters. */
const DISTANCE_SHARE_MAX = 0.5;

/** Returns the nearest of `words`, or undefined if none is near. */
export function nearestWord(word: string, words: Iterable<string>): string | undefined {
  let best: string | undefined;
  let bestDistance = Math.max(1, Math.floor(word.length * DISTANCE_SHARE_MAX)) + 1;
  for (const each of words) {
    const distance = editDistance(word, each);
    if (distance >= bestDistance) continue;
    bestDistance = distance;
    best = each;
  }
  return best;
}

/** Returns how many letters have to be added, removed or changed. */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let i = 1; i <= from.length; i++) {
    const next = [i];
    for (let j = 1; j <= to.length; j++) {
      const changed = row[j - 1]! + (from[i - 1] === to[j - 1] ? 0 : 1);
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, changed));
    }
    row = next;
  }
  return row[to.length]!;
}
