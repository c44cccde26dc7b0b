// Waits until clients of a server wait for jobs.

import { eventually } from "../eventually.ts";
import type { ServerProcess } from "./server-process.ts";
import { WireClient } from "./wire-client.ts";

/** A stop forgets commands that have not been read: only a reserve that waits is answered. */
export async function untilWaiting({ address }: ServerProcess, count: number): Promise<void> {
  const client = await WireClient.connect(address);
  await eventually(`${count} to wait`, async () =>
    (await client.ask("stats")).body?.toString().includes(`\ncurrent-waiting: ${count}\n`),
  );
  client.close();
}
