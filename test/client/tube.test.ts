// Tests that commands of the used tube reach that tube, although a `use` for another one is under
// way: puts and kicks on a plain beanstalkd name no tube.

import assert from "node:assert/strict";
import { it } from "node:test";
import { connect } from "../../src/client/client.ts";
import { scriptedServer } from "./scripted-server.ts";

it("a put into the used tube waits behind one that switches to another tube", async (t) => {
  const late: Promise<unknown>[] = [];
  const server = await scriptedServer(t, (line) => {
    if (line === "extensions") return "UNKNOWN_COMMAND\r\n";
    // At this moment, the client still knows only of tube a, and the server already uses b.
    if (line === "use b") late.push(queue.put("a", "for a"), queue.tube("a").kick(7));
    if (line.startsWith("use ")) return `USING ${line.slice(4)}\r\n`;
    if (line.startsWith("kick ")) return "KICKED 1\r\n";
    // The line of a put has its reply after the body.
    return line.startsWith("put ") ? undefined : "INSERTED 1\r\n";
  });
  const queue = await connect(server.address);
  t.after(() => queue.close());
  await queue.put("a", "first");
  await queue.put("b", "for b");
  assert.equal(late.length, 2);
  await Promise.all(late);
  const said = server.lines.filter((line) => !line.startsWith("put "));
  const [greeting, ...inTubes] = said;
  assert.equal(greeting, "extensions");
  assert.deepEqual(inTubes, ["use a", "first", "use b", "for b", "use a", "for a", "kick 7"]);
});
