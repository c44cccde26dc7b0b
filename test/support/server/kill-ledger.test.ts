// Tests that the ledger of the kill campaigns notices what it is there for.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { it } from "node:test";
import { KillLedger } from "./kill-ledger.ts";
import { WireClient } from "./wire-client.ts";

it("an id that is given twice, though the first job was lost (canary)", async (t) => {
  let puts = 0;
  const server = createServer((socket) => {
    socket.on("data", (bytes) => {
      const [command = ""] = bytes.toString("latin1").split(" ", 1);
      if (command === "watch") socket.write("WATCHING 1\r\n");
      else if (command === "use") socket.write("USING t\r\n");
      else if (command.startsWith("reserve")) socket.write("TIMED_OUT\r\n");
      else if (command.startsWith("put") && puts++ < 2) socket.write("INSERTED 7\r\n");
      else if (command.startsWith("put")) socket.destroy();
    });
  }).listen(0, "127.0.0.1");
  t.after(() => server.close());
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  const ledger = new KillLedger();
  await ledger.work(await WireClient.connect({ port, host: "127.0.0.1" }), 1);
  assert.equal(ledger.acknowledgedPuts, 2);
  assert.deepEqual(ledger.surprises, ["the id 7 was given again"]);
});
