// Kinds of clients: each plays one connection and returns, or fails when the connection breaks.

import type { SeededRandom } from "../support/seeded-random.ts";
import type { ClientHost } from "./client-host.ts";
import { type HeldJob, type PutOptions, putBytes, type SoakClient } from "./soak-client.ts";
import { Violation } from "./violation.ts";

const TUBES = ["default", "alpha", "beta", "gamma", "delta", "epsilon", "zeta.1", "(eta)", "0.5"] as const;

/** Above this number no client puts; they delete instead. */
const LIVE_JOBS_MAX = 4000;
const LIVE_BYTES_MAX = 12 << 20;
const PIPELINE_MAX = 60;
const RESERVE_LIMIT_MS = 30_000;

type Behaviour = (client: SoakClient, random: SeededRandom, load: ClientHost) => Promise<void>;

const tubeOf = (random: SeededRandom): string => random.pick(TUBES) as string;

function bodyBytes(random: SeededRandom): number {
  const size = random.weighted({ tiny: 50, small: 40, ring: 15, big: 4, huge: 1 });
  if (size === "tiny") return random.between(0, 60);
  if (size === "small") return random.between(60, 2000);
  if (size === "ring") return random.between(2000, 66_000);
  return size === "big" ? random.between(66_000, 300_000) : random.between(300_000, 1 << 20);
}

function putOptions(random: SeededRandom): PutOptions {
  const delay = random.weighted({ none: 70, short: 20, long: 10 });
  return {
    tube: tubeOf(random),
    bytes: bodyBytes(random),
    pri: random.chance(0.5) ? random.between(0, 10) : random.between(0, 2 ** 32 - 1),
    delaySeconds: delay === "none" ? 0 : delay === "short" ? random.between(1, 2) : random.between(100, 5000),
    ttrSeconds: random.chance(0.4) ? random.between(1, 3) : random.between(10, 120),
  };
}

const isFull = ({ ledger }: ClientHost): boolean =>
  ledger.liveJobs > LIVE_JOBS_MAX || ledger.liveBytes > LIVE_BYTES_MAX;

/** One put after the other. */
async function produce(client: SoakClient, random: SeededRandom, load: ClientHost): Promise<void> {
  for (let count = random.between(1, 40); count > 0 && load.isOpen; count--) {
    if (isFull(load)) return await reap(client, random, load);
    await client.put(putOptions(random));
  }
}

/** Many puts at once, then all answers. */
async function pipeline(client: SoakClient, random: SeededRandom, load: ClientHost): Promise<void> {
  if (isFull(load)) return await reap(client, random, load);
  const tube = tubeOf(random);
  await client.use(tube);
  const puts = Array.from({ length: random.between(2, PIPELINE_MAX) }, () =>
    client.sendPut({ ...putOptions(random), tube, bytes: random.between(0, 3000) }),
  );
  for (const put of puts) await client.readPut(put);
}

async function watchSome(client: SoakClient, random: SeededRandom): Promise<void> {
  const wanted = random.chance(0.3) ? 1 : random.between(2, TUBES.length);
  const chosen = new Set(Array.from({ length: wanted }, () => tubeOf(random)));
  for (const tube of chosen) await client.ask(`watch ${tube}`, /^WATCHING \d+$/);
  if (!chosen.has("default")) await client.ask("ignore default", /^WATCHING \d+$/);
}

/** Reserves, and ends each job in one of the ways a worker has. */
async function consume(client: SoakClient, random: SeededRandom, load: ClientHost): Promise<void> {
  await watchSome(client, random);
  for (let count = random.between(5, 80); count > 0 && load.isOpen; count--) {
    const held = await client.reserve(random.chance(0.7) ? 0 : 1);
    if (held !== undefined) await finish(client, held, random, load);
    else await load.rest(random.between(1, 50));
  }
}

async function finish(
  client: SoakClient,
  held: HeldJob,
  random: SeededRandom,
  load: ClientHost,
): Promise<void> {
  const pri = random.between(0, 2000);
  const what = random.weighted({ delete: 60, release: 12, delay: 6, bury: 8, touch: 8, keep: 4, stale: 1 });
  if (what === "delete") await client.delete(held);
  else if (what === "release") await client.release(held, pri, 0);
  else if (what === "delay")
    await client.release(held, pri, random.chance(0.7) ? random.between(1, 2) : 1000);
  else if (what === "bury") await client.bury(held, pri);
  else if (what === "touch") {
    await client.touch(held);
    await load.rest(random.between(0, 100));
    if (client.held.includes(held)) await client.delete(held);
  } else if (what === "stale") {
    // Past a short TTR: another client may have it by then.
    await load.rest(Math.min(held.job.body.ttrSeconds * 1000 + random.between(-50, 300), 3500));
    if (random.chance(0.5)) await client.delete(held);
    else await client.release(held, pri, 0);
  }
}

/** Waits for a job on several tubes, as an idle worker does, and vanishes with what it got. */
async function waitAndVanish(client: SoakClient, random: SeededRandom, load: ClientHost): Promise<void> {
  await watchSome(client, random);
  await client.reserve(random.between(0, 2));
  await load.rest(random.between(0, 500));
  if (random.chance(0.5)) client.reset();
}

/**
 * Leaves in the midst of something. What was sent in full may or may not happen; what was not, must
 * not.
 */
async function vanish(client: SoakClient, random: SeededRandom, load: ClientHost): Promise<void> {
  const options = putOptions(random);
  await client.use(options.tube);
  const how = random.weighted({ line: 1, body: 3, put: 3, reserve: 2, bulk: 2 });
  if (how === "line") client.wire.send("reserve-with-time");
  else if (how === "body") {
    const whole = putBytes(load.ledger.newBody(options.tube, options.bytes, 10), options.pri, 0);
    // At least the last byte is missing.
    client.wire.send(whole.subarray(0, random.between(1, whole.length - 1)));
  } else if (how === "put") client.sendPut(options);
  else if (how === "reserve") client.wire.send("reserve\r\n");
  else for (let count = 20; count > 0; count--) client.sendPut({ ...options, bytes: random.between(0, 500) });
  await load.rest(random.chance(0.5) ? 0 : random.between(1, 100));
  if (random.chance(0.5)) client.reset();
}

/** Sends, ends its write side, and must still get every answer, then the end. */
async function halfClose(client: SoakClient, random: SeededRandom, load: ClientHost): Promise<void> {
  const tube = tubeOf(random);
  await client.use(tube);
  if (random.chance(0.3)) await client.ask(`watch ${tube}`, /^WATCHING \d+$/);
  const puts = isFull(load)
    ? []
    : Array.from({ length: random.between(1, 10) }, () => client.sendPut({ ...putOptions(random), tube }));
  const sentMs = performance.now();
  client.wire.send("reserve-with-timeout 0\r\nlist-tube-used\r\n");
  client.halfClose();
  for (const put of puts) await client.readPut(put);
  await client.readReserved(sentMs);
  client.expect("list-tube-used", await client.readReply(), /^USING /);
  await client.wire.expectEnd(RESERVE_LIMIT_MS);
}

/** Connects, and says nothing. */
async function silent(_client: SoakClient, random: SeededRandom, load: ClientHost): Promise<void> {
  await load.rest(random.between(100, 3000));
}

/** Asks for more than the socket's buffers hold, reads nothing for a while, then all. */
async function readSlowly(client: SoakClient, random: SeededRandom, load: ClientHost): Promise<void> {
  await watchSome(client, random);
  client.wire.socket.pause();
  const sentMs = performance.now();
  const asked = random.between(5, 40);
  client.wire.send("reserve-with-timeout 0\r\nlist-tubes\r\nstats\r\n".repeat(asked));
  await load.rest(random.between(500, 3000));
  client.wire.socket.resume();
  for (let count = asked; count > 0; count--) {
    const held = await client.readReserved(sentMs);
    client.expect("list-tubes", await client.readReply(), /^OK /);
    client.expect("stats", await client.readReply(), /^OK /);
    if (held !== undefined && random.chance(0.2)) load.counters.add("job given to a slow reader");
  }
  // Their TTRs are counted from when they were given out, not from now.
  for (const held of client.held) await client.delete(held);
}

/** Tubes that live for a moment. */
async function churnTubes(client: SoakClient, random: SeededRandom, load: ClientHost): Promise<void> {
  for (let count = random.between(10, 200); count > 0 && load.isOpen; count--) {
    const tube = `churn-${random.between(0, 1e9)}`;
    client.wire.send(
      `use ${tube}\r\nwatch ${tube}\r\nstats-tube ${tube}\r\nuse default\r\nignore ${tube}\r\n`,
    );
    for (const expected of [/^USING churn/, /^WATCHING 2$/, /^OK /, /^USING default$/, /^WATCHING 1$/]) {
      client.expect("tube churn", await client.readReply(), expected);
    }
    load.counters.add("tube made and left");
  }
  if (isFull(load)) return;
  // Some of them keep a job, which another client must take later.
  const tube = `kept-${random.between(0, 1e9)}`;
  await client.ask(`watch ${tube}`, /^WATCHING 2$/);
  await client.ask("ignore default", /^WATCHING 1$/);
  await client.use(tube);
  const put = client.sendPut({ ...putOptions(random), tube, delaySeconds: 0 });
  if (!(await client.readPut(put))) return;
  const held = await client.reserve(0);
  const job = put.job!;
  if (held !== undefined) await client.delete(held);
  else if (!job.isDeleted && job.deletesOpen === 0) {
    throw new Violation(
      `job ${job.id}, the only one of tube ${tube}, was not given to who watches it`,
      job.history,
    );
  }
}

/** Looks at everything. */
async function inspect(client: SoakClient, random: SeededRandom, load: ClientHost): Promise<void> {
  for (let count = random.between(5, 50); count > 0 && load.isOpen; count--) {
    const tube = tubeOf(random);
    const what = random.weighted({ stats: 3, lists: 3, tube: 3, peek: 8, some: 6, pause: 1, wrong: 2 });
    if (what === "stats") await client.ask("stats", /^OK /);
    else if (what === "lists") {
      await client.ask("list-tubes", /^OK /);
      await client.ask("list-tubes-watched", /^OK /);
      await client.ask("list-tube-used", /^USING /);
    } else if (what === "tube") await client.ask(`stats-tube ${tube}`, /^(OK |NOT_FOUND$)/);
    else if (what === "peek") await client.peek(`peek ${anyId(random, load)}`);
    else if (what === "some") {
      await client.use(tube);
      await client.peek(random.pick(["peek-ready", "peek-delayed", "peek-buried"] as const));
    } else if (what === "pause")
      await client.ask(`pause-tube ${tube} ${random.between(0, 1)}`, /^(PAUSED|NOT_FOUND)$/);
    else
      await client.ask(
        random.pick(["", "put", "delete x", "nonsense"] as const),
        /^(UNKNOWN_COMMAND|BAD_FORMAT)$/,
      );
  }
}

/** Brings buried and delayed jobs back, by number and one by one. */
async function kick(client: SoakClient, random: SeededRandom, load: ClientHost): Promise<void> {
  for (let count = random.between(1, 10); count > 0 && load.isOpen; count--) {
    if (random.chance(0.5)) {
      await client.kick(tubeOf(random), random.between(0, 20));
      continue;
    }
    await client.use(tubeOf(random));
    const job = await client.peek(random.pick(["peek-delayed", "peek-buried"] as const));
    if (job === undefined) continue;
    if (random.chance(0.5)) await client.kickJob(job);
    else {
      const held = await client.reserveJob(job.id);
      if (held !== undefined) await finish(client, held, random, load);
    }
  }
}

/** Deletes what it does not hold. */
async function reap(client: SoakClient, random: SeededRandom, load: ClientHost): Promise<void> {
  for (let count = random.between(20, 200); count > 0 && load.isOpen; count--) {
    if (random.chance(0.5)) {
      const job = load.ledger.jobs.get(anyId(random, load));
      if (job !== undefined && !job.isDeleted) await client.deleteOther(job);
      continue;
    }
    await client.use(tubeOf(random));
    const job = await client.peek(random.pick(["peek-ready", "peek-delayed", "peek-buried"] as const));
    if (job !== undefined) await client.deleteOther(job);
  }
}

/** An id that was given not long ago. */
function anyId(random: SeededRandom, { ledger }: ClientHost): number {
  return Math.max(1, ledger.highestId - random.between(0, random.chance(0.5) ? 100 : LIVE_JOBS_MAX));
}

export const BEHAVIOURS = {
  produce,
  pipeline,
  consume,
  waitAndVanish,
  vanish,
  halfClose,
  silent,
  readSlowly,
  churnTubes,
  inspect,
  kick,
  reap,
} as const satisfies Record<string, Behaviour>;

export type BehaviourName = keyof typeof BEHAVIOURS;

export const WEIGHTS: Readonly<Record<BehaviourName, number>> = {
  produce: 30,
  pipeline: 8,
  consume: 30,
  waitAndVanish: 6,
  vanish: 8,
  halfClose: 6,
  silent: 2,
  readSlowly: 4,
  churnTubes: 5,
  inspect: 8,
  kick: 5,
  reap: 4,
};
