// A fuzzer: it generates an input from a seed, and judges a server's reaction.

import type { Piece } from "./piece.ts";
import type { Layout } from "./stream-target.ts";

export const FUZZER_NAMES = ["bytes", "grammar", "splitting"] as const;
export type FuzzerName = (typeof FUZZER_NAMES)[number];

export interface FuzzCase {
  readonly pieces: readonly Piece[];
  /** Options of the server in this process. */
  readonly layout?: Layout;
  /** The client goes away without reading. */
  readonly abandon?: "close" | "reset";
}

/** Description of the fault. */
export interface Difference {
  readonly what: string;
  readonly expected: string;
  readonly got: string;
  /** The conversation so far, with what should have come. */
  readonly transcript: readonly string[];
}

export interface Fuzzer {
  readonly name: FuzzerName;
  /** Server under test. */
  readonly place: string;
  draw(seed: number): FuzzCase;
  /** Undefined when everything is as it should be. */
  judge(fuzzCase: FuzzCase): Promise<Difference | undefined>;
  /** Options that a server needs to play the transcript. */
  flagsOf(fuzzCase: FuzzCase): string;
  /** Replaces servers that may have been harmed. */
  restart(): Promise<void>;
  /** Fails when something has been left behind. */
  finish(): Promise<void>;
  stop(): Promise<void>;
}
