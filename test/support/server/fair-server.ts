// Shared setup of the tests of order and fairness: a server of a topology, clients of one tube.

import type { TestContext } from "node:test";
import { canRun, NEEDS } from "../machine/need.ts";
import { type Topology, topologyFlags } from "../topologies.ts";
import { type ServerProcess, startServer } from "./server-process.ts";
import { WireClient } from "./wire-client.ts";

export async function withServer(
  t: TestContext,
  topology: Topology,
  body: (server: ServerProcess) => Promise<void>,
): Promise<void> {
  if (!canRun(t, NEEDS.ours)) return;
  const server = await startServer({ kind: "ours", flags: topologyFlags(topology) });
  try {
    await body(server);
  } finally {
    await server.kill();
  }
}

/** A client that uses and watches that tube alone. */
export async function clientOf(server: ServerProcess, tube: string): Promise<WireClient> {
  const client = await WireClient.connect(server.address);
  for (const line of [`use ${tube}`, `watch ${tube}`, "ignore default"]) await client.ask(line);
  return client;
}

/** The id in a reply such as RESERVED or INSERTED. */
export const idOf = (line: string): number => Number(/^[A-Z]+ (\d+)/.exec(line)?.[1]);
