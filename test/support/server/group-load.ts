// Mixed load on a group, by clients that reconnect to the serving server.

import { setTimeout as sleep } from "node:timers/promises";
import { eventually } from "../eventually.ts";
import type { SeededRandom } from "../seeded-random.ts";
import type { KillLedger } from "./kill-ledger.ts";
import type { ServerGroup } from "./server-group.ts";
import type { WireClient } from "./wire-client.ts";

/** Fewest acknowledged puts of a working load. */
const PUTS_MIN = 4;
/** A busy machine takes its time. */
const PUTS_MS_MAX = 60_000;

interface GroupLoad {
  /** Resolves after so many milliseconds, and not before some more puts were acknowledged. */
  goOn(ms: number): Promise<void>;
  /** Resolves when all connections are closed and what they saw is in the ledger. */
  end(): Promise<void>;
}

/** Ends with the test at the latest. */
export function loadGroup(
  t: { after(done: () => void): unknown },
  group: Pick<ServerGroup, "connect">,
  ledger: KillLedger,
  random: SeededRandom,
  clients: number,
): GroupLoad {
  let isOver = false;
  const open = new Set<WireClient>();
  const one = async (): Promise<void> => {
    while (!isOver) {
      try {
        const client = await group.connect();
        open.add(client);
        if (isOver) client.socket.destroy();
        await ledger.work(client, random.between(0, 2 ** 31 - 1));
        open.delete(client);
        client.socket.destroy();
      } catch {
        await sleep(50);
      }
    }
  };
  t.after(() => {
    isOver = true;
    for (const client of open) client.socket.destroy();
  });
  const all = Array.from({ length: clients }, one);
  return {
    async goOn(ms) {
      const enough = ledger.acknowledgedPuts + PUTS_MIN;
      await sleep(ms);
      await eventually("clients are served", () => ledger.acknowledgedPuts >= enough, PUTS_MS_MAX);
    },
    async end() {
      isOver = true;
      for (const client of open) client.socket.destroy();
      await Promise.all(all);
    },
  };
}
