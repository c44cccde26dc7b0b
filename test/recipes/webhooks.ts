// Recipe: a sender of webhooks with retries, and a limit for each customer.

import { type Job, json, type Queue, type Worker, work } from "../../src/client/client.ts";

// page: begin
interface Call {
  readonly url: string;
  readonly event: string;
}

/** A slow customer holds two of your requests at most. Failures are retried for half a day. */
export async function setUp(queue: Queue<Call>): Promise<void> {
  await queue.tube("webhooks").set({
    ...{ maxAttempts: 15, backoff: 5, backoffMax: 3 * 3600, deadLetter: "webhooks-dead" },
    groupMaxReserved: 2,
  });
}

/** A repeated put of an event is one call: its key is remembered for an hour. */
export const send = (queue: Queue<Call>, customer: string, eventId: string, call: Call) =>
  queue.put("webhooks", call, {
    group: customer,
    unique: `${customer}:${eventId}`,
    uniqueFor: 3600,
    ttr: 30,
  });

async function deliver(job: Job<Call>, signal: AbortSignal): Promise<void> {
  const { url, event } = job.body;
  const { status, ok } = await fetch(url, { method: "POST", body: event, signal });
  // The customer has removed this address: don't try again.
  if (status === 410) await job.bury({ reason: "410 Gone" });
  // What a handler throws is the reason of the release.
  else if (!ok) throw new Error(`${url} answered ${status}`);
}

export const startWorker = (queue: Queue<Call>): Worker<Call> =>
  work(queue, ["webhooks"], deliver, { concurrency: 50 });

export const codec = json<Call>();
// page: end
