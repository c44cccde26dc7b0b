// Size of the code path of a command: the files and functions of src/ that V8 counts while one put,
// one reserve that finds a job or waits over two shards, and one delete run in process without a
// log.

import assert from "node:assert/strict";
import { Session } from "node:inspector/promises";
import { describe, it } from "node:test";
import { shardOfTube } from "../../src/base/bytes.ts";
import { HandDrivenServer } from "../support/in-process/hand-driven-server.ts";

const SRC = new URL("../../src/", import.meta.url).href;

interface Passed {
  readonly files: readonly string[];
  readonly functions: readonly string[];
}

/** Returns the files and functions of src/ that run during `action`. */
async function passedBy(action: () => void): Promise<Passed> {
  const session = new Session();
  session.connect();
  await session.post("Profiler.enable");
  await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
  await session.post("Profiler.takePreciseCoverage");
  action();
  const { result } = await session.post("Profiler.takePreciseCoverage");
  session.disconnect();
  const scripts = result
    .filter(({ url }) => url.startsWith(SRC))
    .map(({ url, functions }) => ({
      file: url.slice(SRC.length),
      names: functions
        .filter(({ functionName, ranges }) => functionName !== "" && ranges[0]!.count > 0)
        .map(({ functionName }) => functionName),
    }))
    .filter(({ names }) => names.length > 0);
  return {
    files: scripts.map(({ file }) => file),
    functions: scripts.flatMap(({ file, names }) => names.map((name) => `${file} ${name}`)),
  };
}

/** Returns two tubes that live on different shards of two. */
function tubesApart(): readonly [string, string] {
  const names = Array.from({ length: 100 }, (_, n) => `t${n}`);
  const isOnFirst = (name: string): boolean => shardOfTube(Buffer.from(name), 0, name.length, 2) === 0;
  return [names.find(isOnFirst)!, names.find((name) => !isOnFirst(name))!];
}

/** Prints the figures, which are there to be watched. */
function tell(name: string, { files, functions }: Passed, t: { diagnostic(message: string): void }): void {
  t.diagnostic(`${name}: ${files.length} files, ${functions.length} functions`);
  assert.ok(files.length > 10 && functions.length > 30, "the path is seen");
}

describe("the code that a command passes through", () => {
  it("is counted for a put", async (t) => {
    const server = new HandDrivenServer(1);
    const client = server.connect(true);
    client.say("put 0 0 60 5\r\nhello\r\n");
    server.settle();
    const passed = await passedBy(() => {
      client.say("put 0 0 60 5\r\nhello\r\n");
      server.settle();
    });
    assert.equal(client.take(), "INSERTED 1\r\nINSERTED 2\r\n");
    tell("put", passed, t);
  });

  it("is counted for a reserve that finds a job, and for a delete of that job", async (t) => {
    const server = new HandDrivenServer(1);
    const client = server.connect(true);
    for (let id = 1; id <= 4; id++) client.say("put 0 0 60 5\r\nhello\r\n");
    client.say("reserve\r\ndelete 1\r\n");
    server.settle();
    client.take();
    for (const [name, line] of [
      ["reserve", "reserve\r\n"],
      ["delete", "delete 2\r\n"],
    ] as const) {
      const passed = await passedBy(() => {
        client.say(line);
        server.settle();
      });
      tell(name, passed, t);
    }
    assert.equal(client.take(), "RESERVED 2 5\r\nhello\r\nDELETED\r\n");
  });

  it("is counted for a reserve that waits over two shards", async (t) => {
    const server = new HandDrivenServer(2);
    const [one, other] = tubesApart();
    const worker = server.connect(true);
    worker.say(`watch ${one}\r\nwatch ${other}\r\nignore default\r\n`);
    for (let n = 0; n < 100; n++) worker.say("reserve-with-timeout 0\r\n");
    server.settle();
    worker.take();
    const passed = await passedBy(() => {
      worker.say("reserve\r\n");
      server.settle();
    });
    assert.equal(worker.take(), "", "it waits");
    tell("wait", passed, t);
  });
});
