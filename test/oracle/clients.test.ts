// Tests of third-party clients in several languages, each through a realistic cycle, against our
// server and beanstalkd.

import { describe, it } from "node:test";
import { CLIENTS } from "../clients/all-clients.ts";
import { canRun, NEEDS, type Need } from "../support/machine/need.ts";
import { type ServerKind, startServer } from "../support/server/server-process.ts";
import { skipVariant } from "../support/whole.ts";

const SERVERS: readonly { kind: ServerKind; need: Need; flags: readonly string[] }[] = [
  { kind: "beanstalkd-1.12", need: NEEDS.beanstalkd, flags: [] },
  { kind: "ours", need: NEEDS.ours, flags: ["--shards", "1"] },
  { kind: "ours", need: NEEDS.ours, flags: ["--shards", "4", "--acceptors", "2"] },
];

for (const [row, { kind, need, flags }] of SERVERS.entries()) {
  describe(`clients against ${[kind, ...flags].join(" ")}`, () => {
    for (const [column, client] of CLIENTS.entries()) {
      it(client.name, { skip: skipVariant(row + column, 2) }, async (t) => {
        if (!canRun(t, need, ...client.needs)) return;
        const server = await startServer({ kind, flags });
        try {
          const gone = server.exited.then((exit) => {
            throw new Error(`The server is gone: ${JSON.stringify(exit)}\n${server.stdout}${server.stderr}`);
          });
          gone.catch(() => {}); // When the cycle is over it no longer matters.
          await Promise.race([client.cycle(server.port), gone]);
        } finally {
          await server.stop();
        }
      });
    }
  });
}
