// Tests of listeners behind proxies that begin each connection with a PROXY header.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { connect as connectTls } from "node:tls";
import { type Certificates, makeCertificates } from "../support/certificates.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/machine/free-port.ts";
import { missing, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { type HttpServer, startHttpServer } from "../support/server/http-server.ts";
import { untilItSays } from "../support/server/until-it-says.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { skipVariant } from "../support/whole.ts";

/** The proxy's address, and that of somebody else. */
const PROXY = "127.0.0.9";
const OTHER = "127.0.0.1";

const v1 = (address: string, port = 40_000): Buffer =>
  Buffer.from(`PROXY TCP4 ${address} 127.0.0.1 ${port} 11300\r\n`);
const V2_START = Buffer.from("\r\n\r\n\0\r\nQUIT\n", "latin1");
const v2 = Buffer.concat([
  V2_START,
  Buffer.from([0x21, 0x11, 0, 15, 203, 0, 113, 8, 127, 0, 0, 1, 0x9c, 0x41, 0x2c, 0x24, 4, 0, 0]),
]);
const V2_LOCAL = Buffer.concat([V2_START, Buffer.from([0x20, 0, 0, 0])]);

const SHAPES = [
  ["--transport", "libuv", "--acceptors", "2"],
  ["--shards", "2", "--acceptors", "2"],
];
for (const [index, shape] of SHAPES.entries()) {
  const skip = skipVariant(index, SHAPES.length) || (missing(NEEDS.openssl) ?? false);
  describe(`PROXY headers ${shape.join(" ")}`, { skip }, () => {
    const folder = temporaryFolder({ after }, "proxied");
    const config = join(folder, "runnerbean.toml");
    let files: Certificates;
    let server: HttpServer;
    let ports: readonly number[];
    const write = (proxy: string): void =>
      writeFileSync(
        config,
        `proxy-from = ["192.0.2.0/24", "${proxy}"]
max-connections-per-address = 5
[[listener]]
address = "127.0.0.1:${ports[0]}"
proxy-from = ["${proxy}/32"]
allow = ["203.0.113.0/24"]
[[listener]]
address = "127.0.0.1:${ports[1]}"
proxy-from = ["${proxy}"]
tls = { cert = "${files.cert}", key = "${files.key}" }
`,
      );

    before(async () => {
      files = makeCertificates(folder);
      ports = [await freePort(), await freePort()];
      write(PROXY);
      server = await startHttpServer("--config", config, ...shape);
    });
    after(() => server?.process.stop());

    const dial = (localAddress = PROXY, port = server.process.port): Promise<WireClient> =>
      WireClient.connect({ port, host: "127.0.0.1", localAddress });
    /** Connects, sends the bytes, and returns the client once a command is answered. */
    const through = async (bytes: Buffer, port?: number): Promise<WireClient> => {
      const client = await dial(PROXY, port);
      client.send(Buffer.concat([bytes, Buffer.from("use a\r\n")]));
      assert.equal((await client.readReply()).line, "USING a");
      return client;
    };
    const isListed = async (address: string): Promise<boolean> =>
      (await server.ask(`/v1/connections?address=${address}`)).json.items.length > 0;
    const refused = async (): Promise<number> => {
      const { text } = await server.ask("/metrics");
      return Number(/connections_rejected_total\{reason="proxy-header"\} (\d+)/.exec(text)?.[1]);
    };
    const expectRefusal = async (client: WireClient, counted: number): Promise<void> => {
      await client.expectEnd();
      client.close();
      await eventually("it is counted", async () => (await refused()) === counted);
    };

    it("name the client of a connection, in both versions", async () => {
      for (const [header, address] of [
        [v1("203.0.113.7"), "203.0.113.7:40000"],
        [v2, "203.0.113.8:40001"],
        [Buffer.from("PROXY TCP6 2001:db8::1 ::1 5 6\r\n"), "[2001:db8::1]:5"],
      ] as const) {
        const client = await through(header);
        assert.ok(await isListed(encodeURIComponent(address)), address);
        client.close();
      }
    });

    it("leave the proxy's own connections and unknown clients under its address", async () => {
      for (const header of [V2_LOCAL, Buffer.from("PROXY UNKNOWN\r\n")]) {
        const client = await through(header);
        assert.ok(await isListed(`${PROXY}:${client.socket.localPort}`));
        client.close();
      }
    });

    it("may arrive in pieces, cut at any byte, with commands right behind them", async () => {
      const bystander = await dial(OTHER);
      for (const header of [v1("203.0.113.9"), v2]) {
        for (let cut = 1; cut < header.length; cut++) {
          const client = await dial();
          client.send(header.subarray(0, cut));
          // The acceptors read in between.
          await bystander.ask("list-tube-used");
          client.send(
            Buffer.concat([header.subarray(cut), Buffer.from("put 0 0 60 1\r\na\r\nlist-tube-used\r\n")]),
          );
          assert.match((await client.readReply()).line, /^INSERTED/, `${cut} bytes`);
          assert.equal((await client.readReply()).line, "USING default");
          client.close();
          await client.expectEnd();
        }
      }
      bystander.close();
    });

    it("are followed by as much as a client sends at once", async () => {
      const client = await dial();
      const puts = `put 0 0 60 1000\r\n${"x".repeat(1000)}\r\n`.repeat(300);
      client.send(Buffer.concat([v2, Buffer.from(puts)]));
      for (let put = 0; put < 300; put++) assert.match((await client.readReply()).line, /^INSERTED/);
      client.close();
    });

    it("are bytes like others if no proxy sends them", async () => {
      const client = await dial(OTHER);
      client.send(Buffer.concat([v1("203.0.113.7"), Buffer.from("use b\r\n")]));
      assert.equal((await client.readReply()).line, "UNKNOWN_COMMAND");
      assert.equal((await client.readReply()).line, "USING b");
      client.close();
    });

    it("close the connection if they are missing, malformed or cut, and are counted", async () => {
      let counted = await refused();
      for (const bytes of [
        "use a\r\n",
        "PROXY TCP4 203.0.113.7 127.0.0.1 40000\r\n",
        `PROXY ${"x".repeat(200)}`,
        Buffer.concat([V2_START, Buffer.from([0x21, 0x11, 0xff, 0xff])]),
      ]) {
        const client = await dial();
        client.send(bytes);
        await expectRefusal(client, ++counted);
      }
      for (const bytes of ["", "PROXY TCP4 203"]) {
        const client = await dial();
        client.send(bytes);
        client.socket.end();
        await expectRefusal(client, ++counted);
      }
      // One that comes before the server has taken the connection leaves nothing to count.
      await eventually("a reset is counted", async () => {
        const reset = await dial();
        reset.send("PROXY ");
        await nextTurn();
        reset.socket.resetAndDestroy();
        return (await refused()) > counted;
      });
      await untilItSays(server.process, /a connection was closed: .* PROXY header.*proxy-from of -l and -p/);
    });

    it("close the connection if they take too long", async () => {
      const counted = await refused();
      const client = await dial();
      client.send("PROXY TCP4 ");
      await expectRefusal(client, counted + 1);
    });

    it("give their address to allow-lists", async () => {
      const allowed = await through(v1("203.0.113.7"), ports[0]);
      allowed.close();
      const other = await dial(PROXY, ports[0]);
      other.send(v1("198.51.100.1"));
      await other.expectEnd();
      other.close();
    });

    it("give their address to the limit of connections", async () => {
      const clients: WireClient[] = [];
      for (let open = 0; open < 5; open++) clients.push(await through(v1("203.0.113.50", 1000 + open)));
      const sixth = await dial();
      sixth.send(v1("203.0.113.50"));
      await sixth.expectEnd();
      clients.push(sixth, await through(v1("203.0.113.51")));
      clients[0]!.close();
      await eventually("there is room again", async () => {
        const next = await dial();
        clients.push(next);
        next.send(Buffer.concat([v1("203.0.113.50"), Buffer.from("use a\r\n")]));
        return (await next.readSome(10_000)) !== null;
      });
      for (const client of clients) client.close();
    });

    it("come before TLS", async () => {
      for (const header of [v1("203.0.113.60"), v2]) {
        const plain = await dial(PROXY, ports[1]);
        plain.socket.removeAllListeners("data");
        const ca = readFileSync(files.ca);
        // The header leaves in one packet with the first message of TLS.
        plain.socket.cork();
        plain.send(header);
        const secure = connectTls({ socket: plain.socket, ca, servername: "localhost" });
        plain.socket.uncork();
        const client = new WireClient(secure);
        assert.equal((await client.ask("use a")).line, "USING a");
        assert.ok(await isListed(header === v2 ? "203.0.113.8:40001" : "203.0.113.60:40000"));
        client.close();
      }
    });

    it("name the client in the audit", async () => {
      const client = await through(v1("203.0.113.70"));
      assert.equal((await client.ask("pause-tube a 0")).line, "PAUSED");
      client.close();
      await eventually("the audit has it", async () =>
        (await server.ask("/v1/audit")).text.includes("203.0.113.70"),
      );
    });

    it("are expected of other proxies after a reload", async () => {
      write("127.0.0.8");
      server.process.signal("SIGHUP");
      await untilItSays(server.process, /configuration read again; changed: .*proxy-from/);
      const client = await dial();
      client.send(v1("203.0.113.7"));
      assert.equal((await client.readReply()).line, "UNKNOWN_COMMAND");
      client.close();
      const proxied = await dial("127.0.0.8");
      proxied.send(Buffer.concat([v1("203.0.113.7"), Buffer.from("use a\r\n")]));
      assert.equal((await proxied.readReply()).line, "USING a");
      proxied.close();
      write(PROXY);
      server.process.signal("SIGHUP");
      await eventually("the proxy is back", async () => {
        const back = await dial();
        back.send(v1("203.0.113.7"));
        back.send("use c\r\n");
        const { line } = await back.readReply();
        back.close();
        return line === "USING c";
      });
    });

    it("don't keep the server from stopping", async () => {
      const client = await dial();
      client.send("PROXY ");
      assert.equal((await server.process.stop()).code, 0);
      await client.expectEnd();
      client.close();
    });
  });
}
