// How the HTTP side starts and stops: where it listens, what it refuses, and that the protocol does not notice it.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { startHttpServer } from "./support/http-server.ts";
import { launch } from "./support/server-process.ts";

describe("--http", { concurrency: 3 }, () => {
  it("refuses an address that others can reach, without tokens, and says what to do", async () => {
    const server = await launch({ kind: "ours", flags: ["--http", "0.0.0.0:0"] });
    assert.equal((await server.exited).code, 5);
    assert.match(server.stderr, /--http-insecure/);
  });

  it("ends the start where the address is taken, with the code of an address that can't be had", async () => {
    const first = await startHttpServer();
    try {
      const second = await launch({ kind: "ours", flags: ["--http", `127.0.0.1:${first.port}`] });
      assert.equal((await second.exited).code, 111);
      assert.match(second.stderr, /cannot listen for HTTP on 127\.0\.0\.1:[0-9]+: .*EADDRINUSE/);
    } finally {
      await first.process.stop();
    }
  });

  it("stops with the server, in order, also with a connection that is kept open", async () => {
    const server = await startHttpServer("--http-insecure");
    assert.equal((await server.ask("/livez", { headers: { connection: "keep-alive" } })).status, 200);
    assert.deepEqual(await server.process.stop(), { code: 0, signal: null });
  });
});
