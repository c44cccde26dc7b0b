// A tube, as connections refer to it: the name and the shard that the tube lives on.

import { asciiBytes } from "../../base/bytes.ts";
import { shardOfTube } from "../../base/tube-hash.ts";

export class TubeRef {
  readonly name: string;
  readonly bytes: Uint8Array;
  readonly shard: number;

  constructor(name: string, shards: number) {
    this.name = name;
    this.bytes = asciiBytes(name);
    this.shard = shardOfTube(this.bytes, 0, this.bytes.length, shards);
  }

  /** Returns whether the name is `bytes[start, end)`. */
  is(bytes: Uint8Array, start: number, end: number): boolean {
    if (end - start !== this.bytes.length) return false;
    for (let i = 0; i < this.bytes.length; i++) if (bytes[start + i] !== this.bytes[i]) return false;
    return true;
  }
}
