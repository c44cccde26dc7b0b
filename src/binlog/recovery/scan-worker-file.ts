// Name by which the pool's threads find their code. A bundle replaces this module
// (packaging/bundle/replacements).

export const SCAN_WORKER = new URL("./scan-worker.ts", import.meta.url).href;

export interface ScanTask {
  path: string;
  number: number;
  salvage: boolean;
  /** Whether only the damaged places of the segment are wanted, as it lies on the disk. */
  checks?: boolean;
}
