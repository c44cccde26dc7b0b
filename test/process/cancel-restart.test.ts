// Tests of jobs that were cancelled while a client held them: a stop and a kill end them, with
// their batches and keys, also in a compacted log and with another number of shards.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { eventually } from "../support/eventually.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { type ServerProcess, startServer } from "../support/server/server-process.ts";
import { WireClient } from "../support/server/wire-client.ts";

const TUBES = ["mails", "done", "c"];

for (const end of ["stop", "kill"] as const)
  describe(`after a ${end}`, () => {
    it("jobs that were cancelled while they were held are gone, and nothing else", async (t) => {
      if (!canRun(t, NEEDS.ours)) return;
      const folder = temporaryFolder(t);
      const start = (shards: number): Promise<ServerProcess> =>
        startServer({ kind: "ours", flags: ["-b", folder, "-f", "0", "--shards", String(shards)] });
      let server = await start(3);
      try {
        const client = await WireClient.connect(server.address);
        const ask = async (line: string): Promise<string> => (await client.ask(line)).line;
        assert.equal(await ask("open-batch b"), "OPENED");
        const ids: string[] = [];
        for (const tube of TUBES) {
          for (const key of ["k", "l"]) {
            const put = `put-in-tube ${tube} 0 0 60 1 unique=${key} unique-for=1000 batch=b\r\nx`;
            const [word, id] = (await ask(put)).split(" ");
            assert.equal(word, "INSERTED");
            ids.push(id!);
            assert.match(await ask(`reserve-job ${id}`), /^RESERVED/);
          }
          // What is set for expired jobs is nothing to cancelled ones.
          assert.equal(await ask(`set-tube ${tube} expire=bury`), "SET");
        }
        assert.equal(await ask("commit-batch b"), "COMMITTED");
        const other = await WireClient.connect(server.address);
        for (const [at, id] of ids.entries())
          if (at % 2 === 0)
            assert.equal((await other.ask(`cancel-job ${id} reason=r${id}`)).line, "CANCELLING");
        await (end === "kill" ? server.kill() : server.stop());
        server = await start(2);
        const after = await WireClient.connect(server.address);
        for (const [at, id] of ids.entries()) {
          const { line } = await after.ask(`stats-job ${id}`);
          assert.match(line, at % 2 === 0 ? /^NOT_FOUND/ : /^OK/, `job ${id}`);
        }
        await eventually("the batch counts them", async () =>
          /^open: 3\ndone: 0\nfailed: 3$/m.test(String((await after.ask("inspect-batch b")).body)),
        );
        for (const tube of TUBES) {
          const again = await after.ask(`put-in-tube ${tube} 0 0 60 1 unique=k\r\nx`);
          assert.match(again.line, /^DUPLICATE/, `the key of a job in ${tube} is remembered`);
          const { body } = await after.ask(`inspect-tube ${tube}`);
          assert.match(String(body), /^dead: 0\n/m);
        }
        after.close();
      } finally {
        await server.stop();
      }
    });
  });
