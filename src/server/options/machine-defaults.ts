// Defaults that depend on the machine: threads by its cores, the transport by its kernel.

import type { TransportKind } from "../../acceptor/acceptor.ts";
import { isSince } from "../../base/kernel-release.ts";

export const SHARDS_MAX = 64;
export const ACCEPTORS_MAX = 16;

/**
 * Returns the thread counts for `cores`. At full load, an acceptor takes most of a core and a shard
 * a fifth of one.
 */
export function defaultThreads(cores: number): { acceptors: number; shards: number } {
  const shards = Math.max(1, Math.min(SHARDS_MAX, Math.floor(cores / 4)));
  return { shards, acceptors: Math.max(1, Math.min(ACCEPTORS_MAX, cores - shards - (cores > 3 ? 1 : 0))) };
}

/** First Linux release that uses io_uring by default: the one that it was tested on. */
const IO_URING_SINCE = [6, 18] as const;

/**
 * Returns the default transport for a kernel release such as "6.18.44": io_uring if it is permitted
 * and the kernel is no older than the tested one.
 */
export function defaultTransport(kernelRelease: string): TransportKind | "auto" {
  return isSince(kernelRelease, IO_URING_SINCE) ? "auto" : "libuv";
}
