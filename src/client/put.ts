// Puts jobs: one, or as many as an iterable gives, pipelined.

import { duration, optionsText, tubeName, whole, wholeSeconds } from "./command-text.ts";
import { NotSupported } from "./errors.ts";
import type { Link } from "./link.ts";

/** Durations in seconds. From `unique` on they are extensions. */
export interface PutOptions {
  /** Smaller ones come first. 1024 if not given. */
  readonly pri?: number;
  /** Decimals with extensions; beanstalkd gets the next whole second. */
  readonly delay?: number;
  /** 60 if not given. */
  readonly ttr?: number;
  readonly unique?: string;
  readonly uniqueFor?: number;
  readonly uniqueUntil?: "delete" | "reserve";
  readonly group?: string;
  readonly weight?: number;
  readonly ttl?: number;
}

export interface Put {
  readonly id: number;
  /** Nothing was stored: `id` is, or was, the job with the same `unique`. */
  readonly duplicate: boolean;
}

/** What `putMany` has done. */
export interface PutCounts {
  readonly inserted: number;
  readonly duplicates: number;
}

/** Of `putMany`, not answered yet. */
const UNDER_WAY_BYTES = 1_048_576;
/** A command line, roughly. */
const LINE_BYTES = 64;

/** Throws what is wrong with the options before anything is sent. */
export async function put(link: Link, tube: string, body: Uint8Array, options: PutOptions): Promise<Put> {
  const { pri = 1024, delay = 0, ttr = 60, ...more } = options;
  if (!(body instanceof Uint8Array))
    throw new TypeError("a body must be bytes, or have a codec that makes them");
  const name = tubeName(tube);
  const extras = optionsText(more);
  const first = whole(pri, "pri");
  const rest = `${whole(ttr, "ttr")} ${body.length}`;
  const inTube = `put-in-tube ${name} ${first} ${duration(delay, "delay")} ${rest}${extras}`;
  const plain = `put ${first} ${wholeSeconds(delay, "delay")} ${rest}`;
  const { words } = await link.run(async (wire) => {
    if (wire.extensions.has("put-in-tube")) return wire.request(inTube, "INSERTED DUPLICATE", body);
    if (extras === "") return wire.inTube(name, plain, "INSERTED", body);
    throw new NotSupported(`the server has no put-in-tube, so no${extras}`, "UNKNOWN_COMMAND");
  });
  return { id: Number(words[1]), duplicate: words[0] === "DUPLICATE" };
}

/** `puts` makes each put, when it is asked for. Ends at the first error, when all that was under way is answered. */
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
