// Puts of one job, or of all that an iterable yields, pipelined.

import { duration, optionsText, tubeName, whole, wholeSeconds } from "./command-text.ts";
import { NotSupported } from "./errors.ts";
import type { Link } from "./link.ts";

/** Durations in seconds. The options from `unique` on are extensions. */
export interface PutOptions {
  /** Smaller values come first; 1024 by default. */
  readonly pri?: number;
  /** May have decimals with extensions; for beanstalkd, it is rounded up to whole seconds. */
  readonly delay?: number;
  /** 60 by default. */
  readonly ttr?: number;
  readonly unique?: string;
  readonly uniqueFor?: number;
  readonly uniqueUntil?: "delete" | "reserve";
  /** What becomes of a waiting job that has the key; by default, the put is refused. */
  readonly onDuplicate?: "refuse" | "keep" | "replace" | "escalate" | "debounce";
  /** With `debounce`: how long after its first put the job becomes ready at the latest. */
  readonly debounceMax?: number;
  readonly group?: string;
  readonly weight?: number;
  readonly ttl?: number;
}

export type PutOutcome = "inserted" | "duplicate" | "kept" | "replaced" | "escalated" | "debounced";

export interface Put {
  readonly id: number;
  /** True if no job was added: `id` is, or was, the job with the same `unique`. */
  readonly duplicate: boolean;
  /** What the put did; to another job with the same `unique` unless it is `"inserted"`. */
  readonly outcome: PutOutcome;
}

/** Result of `putMany`. */
export interface PutCounts {
  readonly inserted: number;
  readonly duplicates: number;
}

const REPLIES = "INSERTED DUPLICATE KEPT REPLACED ESCALATED DEBOUNCED";

/** Limit of `putMany` for unanswered puts. */
const UNDER_WAY_BYTES = 1_048_576;
/** Approximate length of a command line. */
const LINE_BYTES = 64;

/** Puts a job. Throws for invalid options before anything is sent. */
export async function put(link: Link, tube: string, body: Uint8Array, options: PutOptions): Promise<Put> {
  const { pri = 1024, delay = 0, ttr = 60, ...more } = options;
  if (!(body instanceof Uint8Array))
    throw new TypeError("a body must be bytes, or a codec must turn it into bytes");
  const name = tubeName(tube);
  const extras = optionsText(more);
  const first = whole(pri, "pri");
  const rest = `${whole(ttr, "ttr")} ${body.length}`;
  const inTube = `put-in-tube ${name} ${first} ${duration(delay, "delay")} ${rest}${extras}`;
  const plain = `put ${first} ${wholeSeconds(delay, "delay")} ${rest}`;
  const { words } = await link.run(async (wire) => {
    if (wire.extensions.has("put-in-tube")) return wire.request(inTube, REPLIES, body);
    if (extras === "") return wire.inTube(name, plain, "INSERTED", body);
    throw new NotSupported(`the server has no put-in-tube, so no${extras}`, "UNKNOWN_COMMAND");
  });
  const outcome = words[0]!.toLowerCase() as PutOutcome;
  return { id: Number(words[1]), duplicate: outcome !== "inserted", outcome };
}

/**
 * Runs the puts that the iterable yields. Stops at the first error, once all pending puts are
 * answered.
 */
export async function putMany(
  puts: AsyncIterable<readonly [bytes: number, put: () => Promise<Put>]>,
): Promise<PutCounts> {
  const counts = { inserted: 0, duplicates: 0 };
  const failures: unknown[] = [];
  let underWay = 0;
  let goOn = (): void => {};
  const until = async (isSo: () => boolean): Promise<void> => {
    while (underWay > 0 && !isSo())
      await new Promise<void>((resolve) => {
        goOn = resolve;
      });
  };
  try {
    for await (const [bytes, start] of puts) {
      await until(() => underWay + bytes + LINE_BYTES <= UNDER_WAY_BYTES);
      if (failures.length > 0) break;
      underWay += bytes + LINE_BYTES;
      void start()
        .then(
          ({ duplicate }) => counts[duplicate ? "duplicates" : "inserted"]++,
          (error) => failures.push(error),
        )
        .finally(() => {
          underWay -= bytes + LINE_BYTES;
          goOn();
        });
    }
  } finally {
    await until(() => false);
  }
  if (failures.length > 0) throw failures[0];
  return counts;
}
