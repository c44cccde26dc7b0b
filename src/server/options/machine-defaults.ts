// What suits the machine where nothing is asked for: threads by its cores, the transport by its kernel.

import type { TransportKind } from "../../acceptor/acceptor.ts";

export const SHARDS_MAX = 64;
export const ACCEPTORS_MAX = 16;

/** How many of each suit `cores`: at full load an acceptor takes most of a core, a shard a fifth of one. */
export function defaultThreads(cores: number): { acceptors: number; shards: number } {
  const shards = Math.max(1, Math.min(SHARDS_MAX, Math.floor(cores / 4)));
  return { shards, acceptors: Math.max(1, Math.min(ACCEPTORS_MAX, cores - shards - (cores > 3 ? 1 : 0))) };
}

/** The first Linux on which io_uring is tried unasked: the one that it was tested on. */
const IO_URING_SINCE = [6, 18] as const;

/**
 * io_uring where it is permitted and the kernel, of this release ("6.18.44"), is no older than those that it
 * was tested on.
 */
export function defaultTransport(kernelRelease: string): TransportKind | "auto" {
  const [major = 0, minor = 0] = kernelRelease.split(".").map(Number.parseFloat);
  const [sinceMajor, sinceMinor] = IO_URING_SINCE;
  return major > sinceMajor || (major === sinceMajor && minor >= sinceMinor) ? "auto" : "libuv";
}
