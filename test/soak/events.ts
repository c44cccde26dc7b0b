// Events of a soak that affect the server and its clients. Each returns a description of what it
// did.

import { setTimeout as sleep } from "node:timers/promises";
import { WireClient } from "../support/server/wire-client.ts";
import type { EventHost } from "./event-host.ts";
import { SoakClient } from "./soak-client.ts";
import { Violation } from "./violation.ts";

const ROOM_MS = 20_000;
const FULL_MS = 4000;
const DAY_MS = 86_400_000;

type Event = (soak: EventHost) => Promise<string>;

/** SIGKILL under load. */
async function kill(soak: EventHost): Promise<string> {
  const killed = await endByKill(soak);
  return `${killed}; ${await soak.restart()}`;
}

async function endByKill(soak: EventHost): Promise<string> {
  const { load, host } = soak;
  soak.serverGoes();
  const busy = load.clients.size;
  const closed = load.close();
  await host.kill();
  await closed;
  return `${busy} clients`;
}

async function terminate(soak: EventHost): Promise<string> {
  soak.serverGoes();
  await soak.host.terminate();
  await soak.load.close();
  return await soak.restart();
}

/** SIGUSR1: puts are refused, all else goes on; then SIGTERM. */
async function drain(soak: EventHost): Promise<string> {
  soak.load.allowed.draining = true;
  soak.host.process.signal("SIGUSR1");
  await sleep(soak.random.between(200, 1500));
  const what = await terminate(soak);
  soak.load.allowed.draining = false;
  return what;
}

async function stall(soak: EventHost): Promise<string> {
  const ms = soak.random.between(100, 3000);
  soak.host.process.signal("SIGSTOP");
  await sleep(ms);
  soak.host.process.signal("SIGCONT");
  return `for ${ms} ms`;
}

/** Sets the server's wall clock: no delay, TTR or timeout of the running server may notice. */
async function stepClock(soak: EventHost): Promise<string> {
  const offsetMs = soak.newClockOffset(DAY_MS);
  soak.clock.step(offsetMs);
  soak.ledger.clock.stepped(offsetMs, performance.now());
  await sleep(soak.random.between(0, 500));
  return `the wall clock is ${Math.round(offsetMs / 1000)} s off`;
}

/** The disk fills up: puts are refused and nothing else. Room comes back: puts are taken again. */
async function fillDisk(soak: EventHost): Promise<string> {
  const { disk, load, host, random } = soak;
  load.allowed.diskFull = true;
  disk.fill();
  const filledMs = performance.now();
  const refused = await untilPut(soak, "refused", FULL_MS);
  const refusedAfterMs = Math.round(performance.now() - filledMs);
  await sleep(random.between(500, 2000));
  disk.release();
  const releasedMs = performance.now();
  if (!(await untilPut(soak, "taken", ROOM_MS))) {
    throw new Violation(
      `puts are still refused ${ROOM_MS} ms after the disk has room again: ${host.lastWords}`,
    );
  }
  const takenAfterMs = Math.round(performance.now() - releasedMs);
  await soak.pause();
  load.allowed.diskFull = false;
  return refused
    ? `puts refused after ${refusedAfterMs} ms; taken ${takenAfterMs} ms after there was room`
    : "no put was refused";
}

/**
 * SIGKILL while the disk is full. The next server starts, or says why not; with room again, it
 * starts and has all.
 */
async function killOnFullDisk(soak: EventHost): Promise<string> {
  const { disk, load, host } = soak;
  load.allowed.diskFull = true;
  disk.fill();
  await untilPut(soak, "refused", FULL_MS);
  const killed = await endByKill(soak);
  let start = "started on the full disk";
  try {
    await soak.start();
  } catch (error) {
    if (!/no room|no space|ENOSPC|full/i.test(`${error}`))
      throw new Violation(`start on a full disk: ${error}`);
    start = "refused to start on the full disk, started with room";
    disk.release();
    await soak.start();
  }
  disk.release();
  if (!(await untilPut(soak, "taken", ROOM_MS))) {
    throw new Violation(
      `puts are still refused ${ROOM_MS} ms after the disk has room again: ${host.lastWords}`,
    );
  }
  load.allowed.diskFull = false;
  return `${killed}; ${start}; ${await soak.resume()}`;
}

/** Puts small jobs until one is taken, or until one is refused. False after `limitMs`. */
async function untilPut(
  { load, host }: EventHost,
  wanted: "taken" | "refused",
  limitMs: number,
): Promise<boolean> {
  const client = new SoakClient("prober", await WireClient.connect(host.address), load);
  const limit = performance.now() + limitMs;
  const options = { tube: "default", bytes: 100, pri: 0, delaySeconds: 0, ttrSeconds: 60 };
  try {
    while (performance.now() < limit) {
      if ((await client.put(options)) === (wanted === "taken")) return true;
      await sleep(20);
    }
    return false;
  } finally {
    client.close();
  }
}

/** Half of the clients lose their connections at once. */
async function cutClients(soak: EventHost): Promise<string> {
  let cut = 0;
  for (const client of soak.load.clients.keys()) {
    if (!soak.random.chance(0.5)) continue;
    client.wasCut = true;
    if (soak.random.chance(0.5)) client.reset();
    else client.close();
    cut++;
  }
  return `${cut} connections`;
}

/** All clients go, and everything is compared. */
async function settle(soak: EventHost): Promise<string> {
  return await soak.pause();
}

export const EVENTS = {
  "kill -9": kill,
  SIGTERM: terminate,
  drain,
  stall,
  "clock step": stepClock,
  "full disk": fillDisk,
  "kill, full": killOnFullDisk,
  "clients cut": cutClients,
  settlement: settle,
} as const satisfies Record<string, Event>;

export type EventName = keyof typeof EVENTS;

export const NEED_SMALL_DISK: readonly EventName[] = ["full disk", "kill, full"];

/** One deal. */
export const MIXED_DECK: readonly EventName[] = [
  "kill -9",
  "kill -9",
  "kill -9",
  "SIGTERM",
  "drain",
  "stall",
  "clock step",
  "full disk",
  "kill, full",
  "clients cut",
];

/** One deal for a server that stays up. */
export const UP_DECK: readonly EventName[] = [
  "stall",
  "stall",
  "clients cut",
  "clients cut",
  "clock step",
  "full disk",
  "settlement",
  "settlement",
];
