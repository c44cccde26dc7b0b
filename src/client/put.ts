// Puts of one job, or of all that an iterable yields, pipelined.

import { duration, optionsText, tubeName, whole, wholeSeconds } from "./command-text.ts";
import { NotSupported } from "./errors.ts";
import type { Link } from "./link.ts";
import { checkOptionsBytes, type Meta, metaText, withContext } from "./meta.ts";
import type { Tracer } from "./tracing.ts";

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
  /** Effect on a waiting job that has the key; by default, the put is refused. */
  readonly onDuplicate?: "refuse" | "keep" | "replace" | "escalate" | "debounce";
  /** With `debounce`: the longest time from the first put until the job is ready. */
  readonly debounceMax?: number;
  readonly group?: string;
  readonly weight?: number;
  /** What the job takes of the tube's limits, and of its group's share; 1 by default. */
  readonly cost?: number;
  readonly ttl?: number;
  /** The name of an open batch that the job belongs to. */
  readonly batch?: string;
  /** The job waits until this batch has ended. If a member has failed, the job is buried. */
  readonly after?: string;
  /** The same, but the job is released whatever the outcome. */
  readonly afterAny?: string;
  /**
   * Context that travels with the job: names of letters, digits, `-`, `_` and `.`, and texts
   * without blanks. A pair has at most 199 bytes; all options together have at most 1,020, with two
   * more for each.
   */
  readonly meta?: Meta;
}

type PutOutcome = "inserted" | "duplicate" | "kept" | "replaced" | "escalated" | "debounced";

export interface Put {
  readonly id: number;
  /** True if no job was added: `id` is, or was, the job with the same `unique`. */
  readonly duplicate: boolean;
  /** Effect of the put: `"inserted"`, or what it did to the job with the same `unique`. */
  readonly outcome: PutOutcome;
}

/** Result of `putMany`. */
export interface PutCounts {
  readonly inserted: number;
  readonly duplicates: number;
}

/** Options that say what happens to the key. */
export const KEY_OPTIONS = ["uniqueFor", "uniqueUntil", "onDuplicate", "debounceMax"] as const;

/** All replies to a put that did what its options say. */
export const PUT_REPLIES = "INSERTED DUPLICATE KEPT REPLACED ESCALATED DEBOUNCED";

/** Limit of `putMany` for unanswered puts. */
const UNDER_WAY_BYTES = 1_048_576;
/** Approximate length of a command line. */
const LINE_BYTES = 64;

/** What `put-in-tube` takes: its line without options, and ` name=value` for each of them. */
interface PutLine {
  readonly line: string;
  readonly extras: string;
}

/** Throws TypeError or RangeError for what the server would refuse or misread. */
export function putLine(tube: string, bodyBytes: number, options: PutOptions): PutLine {
  const { pri = 1024, delay = 0, ttr = 60, meta = {}, ...more } = options;
  const alone = more.unique === undefined ? KEY_OPTIONS.find((name) => more[name] !== undefined) : undefined;
  if (alone !== undefined) throw new TypeError(`${alone} has no effect without unique`);
  const extras = optionsText(more) + metaText(meta);
  checkOptionsBytes(extras);
  const times = `${duration(delay, "delay")} ${whole(ttr, "ttr")}`;
  return { line: `put-in-tube ${tubeName(tube)} ${whole(pri, "pri")} ${times} ${bodyBytes}`, extras };
}

/** Puts a job. Throws for invalid options before anything is sent. */
export async function put(
  link: Link,
  tube: string,
  body: Uint8Array,
  options: PutOptions,
  tracer: Tracer | undefined,
): Promise<Put> {
  const { pri = 1024, delay = 0, ttr = 60, meta = {} } = options;
  if (!(body instanceof Uint8Array))
    throw new TypeError("a body must be bytes, or a codec must turn it into bytes");
  const { line: inTube, extras } = putLine(tube, body.length, options);
  const plain = `put ${pri} ${wholeSeconds(delay, "delay")} ${ttr} ${body.length}`;
  const send = async (context: Meta): Promise<Put> => {
    const { words } = await link.run(async (wire) => {
      // A trace must not make a put fail, so servers without `meta` don't get its context.
      const options = wire.hasMeta ? withContext(extras, context) : extras;
      if (wire.extensions.has("put-in-tube")) return wire.request(inTube + options, PUT_REPLIES, body);
      if (extras === "") return wire.inTube(tube, plain, "INSERTED", body);
      throw new NotSupported(`the server has no put-in-tube, so no${extras}`, "UNKNOWN_COMMAND");
    });
    const outcome = words[0]!.toLowerCase() as PutOutcome;
    return { id: Number(words[1]), duplicate: outcome !== "inserted", outcome };
  };
  return await (tracer === undefined ? send({}) : tracer.put(tube, meta, send));
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
