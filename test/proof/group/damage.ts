// Damage to the files of a log server: flipped bits, truncation, and blocks that lie elsewhere.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { SeededRandom } from "../../support/seeded-random.ts";

/** Kinds of files, as they lie under the folder of a store. */
const KINDS: Readonly<Record<string, RegExp>> = {
  messages: /\/streams\/[^/]+\/msgs\/\d+\.blk$/,
  "a stream's indexes and settings": /\/streams\/.*(?:\.db|\.inf|\.sum|\.idx)$/,
  "Raft logs of streams": /\/_js_\/S-[^/]+\/msgs\/\d+\.blk$/,
  "Raft states of streams": /\/_js_\/S-[^/]+\/(?:.*\.idx|snapshots\/.*|.*\.db|.*\.inf|.*\.sum)$/,
  "the Raft log of the servers": /\/_js_\/_meta_\/.*(?:\.blk|\.idx|\.db|\.inf|\.sum|snapshots\/.*)$/,
};
const WEIGHTS = [0, 0, 0, 1, 2, 2, 3, 4];
const BLOCK_BYTES = 4096;

const WAYS: Readonly<Record<string, (bytes: Buffer, random: SeededRandom) => Buffer>> = {
  "flipped bits in": (bytes, random) => {
    for (let flips = random.between(1, 4); flips > 0; flips--)
      bytes[random.below(bytes.length)]! ^= 1 << random.below(8);
    return bytes;
  },
  truncated: (bytes, random) => bytes.subarray(0, random.below(bytes.length)),
  "copied blocks within": (bytes, random) => {
    const at = random.below(bytes.length);
    bytes.copyWithin(random.below(bytes.length), at, at + BLOCK_BYTES);
    return bytes;
  },
};

/** Damages every file of a kind. Returns what was done. */
export function damage(store: string, random: SeededRandom): string {
  const kind = Object.keys(KINDS)[random.pick(WEIGHTS)!]!;
  const way = random.pick(Object.keys(WAYS))!;
  const paths = readdirSync(store, { recursive: true })
    .map((name) => join(store, String(name)))
    .filter((path) => KINDS[kind]!.test(path))
    .sort();
  let files = 0;
  for (const path of paths) {
    const bytes = readFileSync(path);
    if (bytes.length === 0) continue;
    writeFileSync(path, WAYS[way]!(bytes, random));
    files++;
  }
  return `${way} ${kind} (${files} files)`;
}
