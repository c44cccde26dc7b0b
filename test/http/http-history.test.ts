// Tests that histories outlive a restart with a log, and files that are damaged or can't be
// written.

import assert from "node:assert/strict";
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { eventually } from "../support/eventually.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { startHttpServer } from "../support/server/http-server.ts";
import { WireClient } from "../support/server/wire-client.ts";

interface History {
  readonly series: Readonly<Record<string, readonly (readonly [seconds: number, value: number])[]>>;
}

describe("histories with -b", () => {
  it("go on after a restart, also after files that can't be read or written", async (t) => {
    const folder = temporaryFolder(t, "http-history");
    const start = async () => {
      const server = await startHttpServer("-b", folder);
      t.after(() => server.process.kill());
      const read = async (path: string): Promise<History> =>
        (await (await fetch(`${server.url}/v1/${path}`)).json()) as History;
      const put = async (): Promise<void> => {
        const client = await WireClient.connect({ port: server.process.port, host: "127.0.0.1" });
        await client.ask("use lasting");
        await client.put("x");
        client.close();
      };
      return { server, read, put };
    };
    const first = await start();
    await first.put();
    const puts = (of: History): number[] => of.series["puts"]!.map(([, value]) => value);
    await eventually("the put is in the history", async () =>
      puts(await first.read("history?seconds=3600&series=puts")).includes(1),
    );
    await eventually("the tube has a history", async () =>
      puts(await first.read("tubes/lasting/history?series=puts")).includes(1),
    );
    await first.server.process.stop();
    assert.deepEqual(
      readdirSync(folder).filter((name) => name.startsWith("history")),
      ["history.0"],
    );
    const second = await start();
    await second.put();
    await eventually("counters go on", async () => {
      const known = puts(await second.read("history?seconds=3600&series=puts"));
      return known[0] === 0 && known.includes(1) && known.at(-1) === 2;
    });
    assert.equal(puts(await second.read("tubes/lasting/history?series=puts"))[0], 1);
    await second.server.process.stop();
    // The last two saves are damaged, and the next one can't be written: the server starts and
    // stops all the same.
    writeFileSync(join(folder, "history.1"), "damaged");
    rmSync(join(folder, "history.0"));
    mkdirSync(join(folder, "history.0"));
    const third = await start();
    await third.put();
    await eventually("the history begins anew", async () => {
      const known = puts(await third.read("history?seconds=3600&series=puts"));
      return known.length > 0 && known[0]! <= 1 && known.at(-1) === 1;
    });
    assert.equal((await third.server.process.stop()).code, 0);
  });
});
