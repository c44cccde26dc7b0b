// Which blocks of src an input executed, from V8's precise coverage in this process.

import type { Profiler } from "node:inspector";
import { Session } from "node:inspector";

/** The folder src, as a URL. */
export const SOURCES = new URL("../../../src/", import.meta.url).href;

export class CodeCoverage {
  readonly #session = new Session();

  constructor() {
    this.#session.connect();
    this.#post("Profiler.enable");
    this.#post("Profiler.startPreciseCoverage", { callCount: true, detailed: true });
  }

  /** Calls of this domain are answered before they return. */
  #post(method: string, parameters: object = {}): Profiler.TakePreciseCoverageReturnType | undefined {
    let answer: Profiler.TakePreciseCoverageReturnType | undefined;
    this.#session.post(method, parameters, (error, result) => {
      if (error !== null) throw error;
      answer = result as Profiler.TakePreciseCoverageReturnType;
    });
    return answer;
  }

  /**
   * What has run in src since the last call: blocks, each with how often as a power of two, because
   * a loop that runs twice is news, and one that runs 1,001 times is not.
   */
  take(): string[] {
    const features: string[] = [];
    for (const [path, blocks] of this.blocks())
      for (const { startOffset, endOffset, count } of blocks)
        if (count > 0) features.push(`${path}:${startOffset}-${endOffset}*${Math.floor(Math.log2(count))}`);
    return features;
  }

  /** The blocks of each file of src, by its path there, with their counts since the last call. */
  blocks(): Map<string, Profiler.CoverageRange[]> {
    const files = new Map<string, Profiler.CoverageRange[]>();
    for (const { url, functions } of this.#post("Profiler.takePreciseCoverage")!.result)
      if (url.startsWith(SOURCES))
        files.set(
          url.slice(SOURCES.length),
          functions.flatMap(({ ranges }) => ranges),
        );
    return files;
  }

  end(): void {
    this.#post("Profiler.stopPreciseCoverage");
    this.#session.disconnect();
  }
}
