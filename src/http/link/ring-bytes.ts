// Memory of the rings between threads.

import type { Topology } from "../../message/topology.ts";

export function ringBytesOf({ requests, responses }: Topology): number {
  return [...requests, ...responses].flat().reduce((sum, { byteLength }) => sum + byteLength, 0);
}
