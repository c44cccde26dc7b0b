// What is known of the shards where they do not answer: in a frozen group they take no questions, and with a full disk perhaps none for long.
// Who watches a server must hear of that from the server itself.

import type { ShardTotals } from "../../message/control.ts";
import type { TubeEntry } from "../state/tube-cache.ts";
import { isFrozen } from "./health.ts";
import type { Service } from "./service.ts";

/** How often it looks whether the group is frozen, and how long it waits for an answer at most. */
const LOOK_MS = 100;
const ANSWER_MS_MAX = 2000;

/** The sums of all shards; the last ones known if the shards do not answer; undefined before they ever have. */
export async function knownTotals(service: Service): Promise<ShardTotals | undefined> {
  if (service.state.phase !== "serving") return undefined;
  const { totals } = service;
  return await answerOr(
    service,
    () => totals.ask(),
    () => totals.last,
  );
}

/** The table of tubes, or the last one known. */
export async function knownTubes(service: Service): Promise<ReadonlyMap<string, TubeEntry>> {
  const { tubes } = service;
  return await answerOr(
    service,
    () => tubes.fresh(),
    () => tubes.tubes,
  );
}

async function answerOr<T>(service: Service, ask: () => Promise<T>, known: () => T): Promise<T> {
  if (isFrozen(service)) return known();
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const untilMs = service.nowMs() + ANSWER_MS_MAX;
  const timer = setInterval(() => {
    if (isFrozen(service) || service.nowMs() > untilMs) resolve(known());
  }, LOOK_MS);
  ask().then(resolve, reject);
  try {
    return await promise;
  } finally {
    clearInterval(timer);
  }
}
