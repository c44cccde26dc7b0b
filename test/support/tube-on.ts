// A tube that lives on a chosen shard.

import { asciiBytes, shardOfTube } from "../../src/base/bytes.ts";

/** Returns the first name that begins with `prefix` and belongs to `shard` of `shards`. */
export function tubeOn(shard: number, shards: number, prefix = "tube-"): string {
  for (let number = 0; ; number++) {
    const name = `${prefix}${number}`;
    if (shardOfTube(asciiBytes(name), 0, name.length, shards) === shard) return name;
  }
}
