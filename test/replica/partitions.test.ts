// Tests of network partitions in a group on three machines: network namespaces, each with a log
// server, two with a server. PARTITIONS=50 node --test test/replica/partitions.test.ts for more.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import "../support/machine/own-network.ts";
import { Namespaces, noNamespaces } from "../support/machine/namespaces.ts";
import { drawnSeed, SeededRandom } from "../support/seeded-random.ts";
import { loadGroup } from "../support/server/group-load.ts";
import { KillLedger } from "../support/server/kill-ledger.ts";
import { missingNats } from "../support/server/nats-cluster.ts";
import { ServerGroup, until } from "../support/server/server-group.ts";

const { PARTITIONS = "", SEED: seed } = process.env;
const SEED = Number(seed ?? (PARTITIONS === "" ? 1 : drawnSeed()));
const CUTS = [
  "the primary sees its clients, and nobody else",
  "the primary is cut off from all",
  "the standby is cut off from all",
  "the machine whose log server leads is cut off from all",
] as const;
/** Longer than the lease, the silence and an election. */
const CUT_MS = 7000;
const LOAD_MS = 500;

const rounds = PARTITIONS === "" ? 1 : Number(PARTITIONS);

test(`acknowledged changes survive ${rounds} partitions of a group`, {
  skip: missingNats() ?? noNamespaces() ?? false,
}, async (t) => {
  t.diagnostic(`replay: SEED=${SEED} PARTITIONS=${rounds} node --test test/replica/partitions.test.ts`);
  const random = new SeededRandom(SEED);
  const network = new Namespaces(t, 3);
  const machines = [1, 2, 3].map((machine) => ({
    host: network.address(machine),
    wrapper: network.wrapper(machine),
  }));
  const group = await ServerGroup.start(t, [], 3, undefined, machines);
  const ledger = new KillLedger();
  for (let round = 0; round < rounds; round++) {
    const cut = PARTITIONS === "" ? CUTS[0] : random.pick(CUTS);
    const primary = group.servers.indexOf(await group.primary()) + 1;
    const clients = loadGroup(t, group, ledger, random, 6);
    await clients.goOn(LOAD_MS);
    const before = ledger.acknowledgedPuts;
    const machine =
      cut === CUTS[3] ? (await group.leadingLogServer()) + 1 : cut === CUTS[2] ? 3 - primary : primary;
    if (cut === CUTS[0]) network.isolate(machine);
    else network.cut(machine);
    await sleep(CUT_MS);
    if (cut !== CUTS[3] && cut !== CUTS[2]) {
      // The other side has a majority, and the old primary takes nothing any more.
      const client = await group.serving();
      assert.notEqual(client.socket.remoteAddress, network.address(machine), `round ${round}: ${cut}`);
      client.socket.destroy();
    }
    network.heal(machine);
    (await group.serving()).socket.destroy();
    await clients.goOn(LOAD_MS);
    await clients.end();
    await group.caughtUp();
    const client = await group.serving();
    // A packet that was lost in the cut is sent again some seconds after the heal, and the end of
    // its client comes behind it.
    await until("the ends of all clients have come", async () => {
      const stats = (await client.ask("stats")).body?.toString() ?? "";
      return stats.includes("\ncurrent-connections: 1\n") ? true : undefined;
    });
    const wrong = await ledger.check(client);
    client.socket.destroy();
    assert.deepEqual(
      wrong,
      [],
      `round ${round}: ${cut}\n${group.servers.map(({ output }) => output.slice(-3000)).join("\n---\n")}`,
    );
    t.diagnostic(`${cut}: ${ledger.acknowledgedPuts - before} puts since`);
  }
  assert.ok(ledger.acknowledgedPuts > 5 * rounds, "there was enough load to say something");
});
