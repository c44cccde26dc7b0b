// Tests of HTTP behind proxies that begin each connection with a PROXY header.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { connect as connectTls } from "node:tls";
import { type Certificates, makeCertificates } from "../support/certificates.ts";
import { eventually } from "../support/eventually.ts";
import { missing, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { type HttpServer, startHttpServer } from "../support/server/http-server.ts";
import { startServer } from "../support/server/server-process.ts";
import { untilItSays } from "../support/server/until-it-says.ts";
import { WireClient } from "../support/server/wire-client.ts";

const PROXY = "127.0.0.9";
const HEADER = "PROXY TCP4 203.0.113.7 127.0.0.1 40000 443\r\n";
const V2 = Buffer.concat([
  Buffer.from("\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c", "latin1"),
  Buffer.from([203, 0, 113, 7, 127, 0, 0, 1, 0x9c, 0x40, 0x01, 0xbb]),
]);
const PUT = "PUT /v1/tubes/default/pause HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
const REQUEST = `${PUT}Content-Length: 14\r\n\r\n{"seconds":30}`;
const SAME = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";

describe("HTTP with PROXY headers", () => {
  let server: HttpServer;
  before(async () => {
    server = await startHttpServer("--http-proxy-from", `192.0.2.0/24,${PROXY}`);
  });
  after(() => server?.process.stop());

  const dial = (): Promise<WireClient> =>
    WireClient.connect({ port: server.port, host: "127.0.0.1", localAddress: PROXY });
  const refused = async (): Promise<number> => {
    const { text } = await server.ask("/metrics");
    return Number(/connections_rejected_total\{reason="proxy-header"\} (\d+)/.exec(text)?.[1]);
  };
  const audited = async (): Promise<string> => (await server.ask("/v1/audit?limit=1")).text;

  it("names the client of a request, and keeps the connection for more", async () => {
    for (const header of [Buffer.from(HEADER), V2]) {
      const client = await dial();
      client.send(Buffer.concat([header, Buffer.from(REQUEST + SAME)]));
      assert.match((await client.readUntil("\r\n")).toString(), /^HTTP\/1.1 20[04]/);
      await client.readUntil("HTTP/1.1 200 OK\r\n");
      client.send(SAME);
      await client.readUntil("HTTP/1.1 200 OK\r\n");
      assert.match(await audited(), /203\.0\.113\.7/);
      client.close();
    }
  });

  it("takes a header that is cut anywhere", async () => {
    for (let cut = 1; cut < HEADER.length; cut += 3) {
      const client = await dial();
      client.send(HEADER.slice(0, cut));
      await server.ask("/livez");
      client.send(HEADER.slice(cut) + SAME);
      assert.match((await client.readUntil("\r\n")).toString(), /^HTTP\/1.1 200/);
      client.close();
    }
  });

  it("closes a connection without a header, and counts it", async () => {
    const before = await refused();
    const client = await dial();
    client.send(SAME);
    await client.expectEnd();
    client.close();
    await eventually("it is counted", async () => (await refused()) === before + 1);
  });

  it("takes a header of somebody else for a bad request", async () => {
    const client = await WireClient.connect({ port: server.port, host: "127.0.0.1" });
    client.send(HEADER + SAME);
    assert.match((await client.readUntil("\r\n")).toString(), /^HTTP\/1.1 400/);
    client.close();
  });

  it("stops while a header is under way", async () => {
    const client = await dial();
    client.send("PROXY ");
    await server.ask("/livez");
    assert.equal((await server.process.stop()).code, 0);
    client.close();
  });
});

const skip = missing(NEEDS.openssl) ?? false;
it("HTTPS takes the header before TLS", { skip }, async (t) => {
  const files: Certificates = makeCertificates(temporaryFolder(t, "proxied-https"));
  const tls = ["--http-tls-cert", files.cert, "--http-tls-key", files.key];
  const flags = ["--http", "127.0.0.1:0", "--http-proxy-from", PROXY, ...tls];
  const server = await startServer({ kind: "ours", flags });
  t.after(() => server.stop());
  const [, port] = await untilItSays(server, /https:\/\/127\.0\.0\.1:(\d+)/);
  // The header comes alone, or the handshake comes with it.
  for (let round = 0; round < 10; round++)
    await overTls(Number(port), readFileSync(files.ca), round % 2 === 0);
});

async function overTls(port: number, ca: Buffer, isApart: boolean): Promise<void> {
  const plain = await WireClient.connect({ port, host: "127.0.0.1", localAddress: PROXY });
  plain.socket.removeAllListeners("data");
  if (!isApart) plain.socket.cork();
  plain.send(HEADER);
  if (isApart) await nextTurn();
  const secure = connectTls({ socket: plain.socket, ca, servername: "localhost" });
  process.nextTick(() => plain.socket.uncork());
  const client = new WireClient(secure);
  const answerTo = async (request: string): Promise<string> => {
    client.send(request);
    const head = (await client.readUntil("\r\n\r\n")).toString();
    const length = Number(/^content-length: (\d+)/im.exec(head)?.[1] ?? 0);
    return head + (await client.readBytes(length)).toString();
  };
  assert.match(await answerTo(REQUEST), /^HTTP\/1.1 20[04]/);
  // A change is noted once its answer has left, and another request may overtake that.
  await eventually("the change has the client's address", async () =>
    (await answerTo("GET /v1/audit HTTP/1.1\r\nHost: localhost\r\n\r\n")).includes("203.0.113.7"),
  );
  client.close();
}
