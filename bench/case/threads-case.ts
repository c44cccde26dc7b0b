// Case of thread counts: our server with more acceptors and shards, against its default.
import type { Workload } from "../load/workload.ts";
import type { BenchCase } from "./bench-case.ts";
import { loadCase } from "./load-case.ts";

const SHARDS = [1, 2, 4];
const ACCEPTORS = [1, 2, 3];
/** Fewer commands/s than this share of the default's, and the threads do harm. */
const SHARE_MIN = 0.9;

/**
 * On two cores the default is one of each, so the first variant is the default again and tells how
 * noisy the machine is.
 */
export function threadsCase(workload: Workload): BenchCase {
  const plain = loadCase(workload);
  const variants = ACCEPTORS.flatMap((acceptors) =>
    SHARDS.map((shards) => ["--acceptors", `${acceptors}`, "--shards", `${shards}`]),
  );
  return {
    ...plain,
    key: `threads-${plain.key}`,
    title: `threads, ${plain.title}`,
    group: "threads",
    variants: { flags: variants, shareMin: SHARE_MIN },
  };
}
