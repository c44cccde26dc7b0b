// Target of a byte stream: a server that answers one connection until it ends, in this process or
// over a socket.

import type { AcceptorCore } from "../../src/acceptor/connection/acceptor-core.ts";
import type { FakeSocket } from "../simulation/server/fake-socket.ts";
import { InProcessServer } from "../simulation/server/in-process-server.ts";
import type { Address } from "../support/conversations/lockstep-side.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { WireClient } from "../support/server/wire-client.ts";

/** Bytes that came back until the connection ended, as latin1. */
export interface Answer {
  readonly text: string;
  /** The server closed the connection, as it must after the client's last byte. */
  readonly hasEnded: boolean;
  /** Fault of the server afterwards. */
  readonly complaint?: string;
}

/** Options of the server in this process. */
export interface Layout {
  readonly shards: number;
  /** Capacity of each ring. */
  readonly ringBytes: number;
  /** Probability that a thread is held up where it can be, and reads are cut. */
  readonly holdUps: number;
  readonly jobBytesMax: number;
  readonly seed: number;
}

/** Breaks the server in some way, to prove that it is found. */
export type Plant = (acceptor: AcceptorCore) => void;

const STATS_AT_REST = [
  "current-connections: 1",
  "current-waiting: 0",
  "current-jobs-reserved: 0",
  "current-workers: 0",
];

/**
 * Sends `writes` one after the other to a fresh server in this process, then half-closes. No time
 * passes.
 */
export function answerInProcess(writes: readonly string[], layout: Layout, plant?: Plant): Answer {
  const server = new InProcessServer({ ...layout, acceptors: 1, random: new SeededRandom(layout.seed) });
  if (plant !== undefined) for (const acceptor of server.acceptors) plant(acceptor);
  const socket = server.connect();
  for (const bytes of writes) {
    socket.write(Buffer.from(bytes, "latin1"));
    server.settle();
  }
  socket.halfClose();
  server.settle();
  const text = socket.takeReceived().toString("latin1");
  const { ended } = socket;
  const complaint = ended ? complaintOf(server) : undefined;
  return { text, hasEnded: ended, ...(complaint === undefined ? {} : { complaint }) };
}

/** Nothing may be left of a connection that has ended. */
function complaintOf(server: InProcessServer): string | undefined {
  const socket: FakeSocket = server.connect();
  socket.write(Buffer.from("stats\r\n"));
  server.settle();
  const stats = socket.takeReceived().toString("latin1").split("\n");
  const missing = STATS_AT_REST.find((row) => !stats.includes(row));
  if (missing === undefined) return undefined;
  const key = missing.slice(0, missing.indexOf(":"));
  return `afterwards stats has ${stats.find((row) => row.startsWith(`${key}:`)) ?? `no ${key}`}, not ${missing}`;
}

const ANSWER_MS = 8000;

/**
 * Sends `writes` over a connection of its own, each a segment where the kernel lets it be, then
 * half-closes.
 */
export async function answerOverSocket(
  writes: readonly string[],
  address: Address,
  pause: () => Promise<unknown> | undefined = () => undefined,
): Promise<Answer> {
  const client = await WireClient.connect(address);
  try {
    for (const bytes of writes) {
      client.send(bytes);
      await pause();
    }
    client.halfClose();
    let text = "";
    for (;;) {
      const some = await client.readSome(ANSWER_MS);
      if (some === null) return { text, hasEnded: client.error === undefined };
      if (some.length === 0) return { text, hasEnded: false };
      text += some.toString("latin1");
    }
  } finally {
    client.close();
  }
}
