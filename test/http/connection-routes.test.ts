// Tests of open and ended connections over HTTP.

import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, it } from "node:test";
import { eventually } from "../support/eventually.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { ManagedServer } from "./manage-requests.ts";

describe("connections over HTTP", () => {
  const its = new ManagedServer();
  const { get } = its.requests;

  it("connections show what they use, watch and hold, and can be closed", async () => {
    const other = await WireClient.connect(its.server.process.address);
    await other.ask("use theirs");
    other.send("put 0 0 60 1\r\na\r\n");
    await other.readReply();
    await other.ask("watch theirs");
    await other.ask("name their-w\xc3\xb6rker");
    const { line } = await other.ask("reserve-with-timeout 0");
    const id = Number(line.split(" ")[1]);
    const { items } = await get("/v1/connections?tube=theirs");
    assert.equal(items.length, 1);
    const [connection] = items;
    assert.deepEqual(
      [connection.uses, connection.watches, connection.held, connection.holds[0].id],
      ["theirs", ["default", "theirs"], 1, id],
    );
    assert.deepEqual([connection.producer, connection.worker, connection.waiting], [true, true, false]);
    assert.equal(connection.address, `127.0.0.1:${other.socket.localPort}`);
    assert.deepEqual([connection.name, (await get(`/v1/jobs/${id}`)).worker], Array(2).fill("their-wörker"));
    for (const [name, matched] of Object.entries({ "their-w": 1, w: 0 }))
      assert.equal((await get(`/v1/connections?name=${name}`)).matched, matched);
    const { listeners, ports } = await get("/v1/server");
    assert.deepEqual(listeners, [connection.listener]);
    assert.deepEqual(ports, [
      { address: connection.listener, protocol: "beanstalkd", tls: false, auth: "none" },
      { address: its.server.url, protocol: "http", tls: false, auth: "none" },
    ]);
    assert.ok(connection.idle >= 0 && connection.idle <= connection.age, `${connection.idle}`);
    const asked = `listener=${connection.listener}&address=${connection.address}&sort=idle`;
    assert.equal((await get(`/v1/connections?${asked}`)).matched, 1);
    assert.equal((await get("/v1/connections?listener=nowhere")).matched, 0);
    assert.equal((await get("/v1/connections?address=10.0.0.1:")).matched, 0);
    assert.ok(
      connection.id.startsWith(`${(await get(`/v1/jobs/${id}`)).holder}.`),
      "the job names its holder so",
    );
    assert.equal((await get(`/v1/connections/${connection.id}`)).held, 1);
    assert.equal((await get("/v1/connections?state=holding")).matched, 1);
    other.send("reserve\r\n");
    await eventually("it waits", async () => (await get("/v1/connections?state=waiting")).matched === 1);
    const closed = await its.server.ask(`/v1/connections/${connection.id}`, { method: "DELETE" });
    assert.equal(closed.status, 202);
    assert.match((await other.readReply()).line, /^(TIMED_OUT|DEADLINE_SOON)$/);
    await eventually("its job is ready", async () => (await get(`/v1/jobs/${id}`)).state === "ready");
    assert.equal(
      (await its.server.ask(`/v1/connections/${connection.id}`, { method: "DELETE" })).status,
      404,
    );
    assert.equal((await its.server.ask("/v1/connections/x")).json.code, "connection-not-found");
    other.socket.destroy();
  });

  it("ended connections are listed with the reason, the last first", async () => {
    const open = async (tube: string): Promise<{ socket: WireClient; peer: string }> => {
      const socket = await WireClient.connect(its.server.process.address);
      await socket.ask(`use ${tube}`);
      await socket.ask(`watch ${tube}`);
      return { socket, peer: `127.0.0.1:${socket.socket.localPort}` };
    };
    const [quits, ends, isClosed] = [
      await open("end-quit"),
      await open("end-client"),
      await open("end-admin"),
    ];
    quits.socket.send("quit\r\n");
    await once(quits.socket.socket, "end");
    ends.socket.socket.end();
    await once(ends.socket.socket, "end");
    const [shown] = (await get("/v1/connections?tube=end-admin")).items;
    assert.deepEqual([shown.closedFor, shown.reason], [null, null]);
    const closed = once(isClosed.socket.socket, "end");
    assert.equal((await its.server.ask(`/v1/connections/${shown.id}`, { method: "DELETE" })).status, 202);
    await closed;
    const { items } = await get("/v1/connections?state=closed&limit=3");
    assert.deepEqual(
      items.map(({ address, uses, watches, reason }: Record<string, unknown>) => [
        ...[address, uses, reason],
        watches,
      ]),
      [
        [isClosed.peer, "end-admin", "admin", ["default", "end-admin"]],
        [ends.peer, "end-client", "client", ["default", "end-client"]],
        [quits.peer, "end-quit", "quit", ["default", "end-quit"]],
      ],
    );
    assert.ok(
      items.every(({ closedFor, age }: { closedFor: number; age: number }) => closedFor >= 0 && age >= 0),
    );
    const some = await get("/v1/connections?state=closed&tube=end-client");
    assert.equal(some.matched, 1);
    const there = `listener=${some.items[0].listener}&address=${ends.peer}`;
    assert.equal((await get(`/v1/connections?state=closed&${there}`)).matched, 1);
    const counted = /connections_closed_total\{reason="quit"\} (\d+)/.exec(
      (await its.server.ask("/metrics?tubes=none")).text,
    );
    assert.ok(Number(counted?.[1]) >= 1, "metrics count it");
    assert.equal(some.items[0].id.split(".").length, 3);
    // A client that dies: its socket is reset.
    const dies = await open("end-reset");
    dies.socket.socket.resetAndDestroy();
    const gone = await eventually("the reset connection has ended", async () => {
      const page = await get("/v1/connections?state=closed&tube=end-reset");
      return page.items[0];
    });
    assert.ok(["error", "client"].includes(gone.reason), gone.reason);
  });
});
