// Tests of bytes in MessagePack requests: they can be the body of a job, and nothing else. Whatever
// lists the fields of an object would make millions of texts of them.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { type HttpServer, startHttpServer } from "../support/server/http-server.ts";

/** The largest request, nearly. */
const BYTES = 8 * 1024 * 1024 - 64;
const MAP_OF_1 = 0x81;
const LIST_OF_1 = 0x91;

/** Returns a MessagePack text; keys are short. */
const text = (key: string): Buffer => Buffer.concat([Buffer.of(0xa0 + key.length), Buffer.from(key)]);

/** Returns a request with bytes, zeros, behind `heads`. */
function bytesIn(...heads: readonly (number | string)[]): Buffer {
  const size = Buffer.alloc(5, 0xc6);
  const zeros = Buffer.alloc(BYTES - 100);
  size.writeUInt32BE(zeros.length, 1);
  const parts = heads.map((head) => (typeof head === "number" ? Buffer.of(head) : text(head)));
  return Buffer.concat([...parts, size, zeros]);
}

describe("bytes in a MessagePack request", () => {
  let server: HttpServer;
  before(async () => {
    server = await startHttpServer("-z", `${BYTES}`);
  });
  after(() => server.process.stop());

  const ask = async (method: string, path: string, body: Uint8Array): Promise<unknown> => {
    const headers = {
      "content-type": "application/vnd.msgpack",
      "content-length": `${body.length}`,
      accept: "application/json",
    };
    const answer = await server.ask(path, { method, body, headers });
    return [answer.status, answer.json?.detail];
  };

  it("are the body of a job, or of one in a list", async () => {
    assert.deepEqual(await ask("POST", "/v1/tubes/a/jobs", bytesIn(MAP_OF_1, "body")), [201, undefined]);
    const listed = bytesIn(MAP_OF_1, "jobs", LIST_OF_1, MAP_OF_1, "body");
    const [status] = (await ask("POST", "/v1/tubes/a/jobs", listed)) as [number];
    assert.ok(status === 200 || status === 201, `${status}`);
  });

  it("are nothing else", async () => {
    const refused = [400, "Bytes can only be the body of a job; send other values as text."];
    assert.deepEqual(await ask("DELETE", "/v1/jobs/1", bytesIn()), refused);
    for (const heads of [
      [],
      [MAP_OF_1, "jobs"],
      [MAP_OF_1, "json"],
      [MAP_OF_1, "json", MAP_OF_1, "body"],
      [MAP_OF_1, "jobs", LIST_OF_1],
      [MAP_OF_1, "jobs", LIST_OF_1, MAP_OF_1, "json"],
    ])
      assert.deepEqual(await ask("POST", "/v1/tubes/a/jobs", bytesIn(...heads)), refused, heads.join());
    assert.deepEqual(await ask("PUT", "/v1/settings/a", bytesIn(MAP_OF_1, "set")), refused);
    assert.equal((await server.ask("/v1/server")).status, 200, "the server lives");
  });
});
