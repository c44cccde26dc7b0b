// Tests of confusing request values: names that every object has, numbers beyond a double or a
// field of the protocol, cursors of lists that never existed. Each is refused with a reason or
// taken as it is, and none causes a server error. Also tests of bytes in MessagePack requests: they
// can be the body of a job, and nothing else, because whatever lists the fields of an object would
// make millions of texts of them.

import assert from "node:assert/strict";
import { connect } from "node:net";
import { after, before, describe, it } from "node:test";
import { eventually } from "../support/eventually.ts";
import { type HttpServer, startHttpServer } from "../support/server/http-server.ts";

const NAMES = ["__proto__", "constructor", "toString", "hasOwnProperty", "valueOf"];
const cursorOf = (text: string): string => Buffer.from(text).toString("base64url");

describe("values over HTTP", () => {
  let server: HttpServer;

  before(async () => {
    server = await startHttpServer("--shards", "2");
    for (const tube of ["a", "b"]) await server.ask(`/v1/tubes/${tube}/jobs`, { json: { body: "x" } });
  });
  after(() => server.process.stop());

  /** Sends `body` as it is. */
  const send = (method: string, path: string, body?: string) =>
    server.ask(path, {
      method,
      ...(body === undefined ? {} : { body, headers: { "content-type": "application/json" } }),
    });

  describe("names of prototypes", () => {
    for (const [path, status] of [
      ["/v1/events?get=/v1/tubes?sort=", 400],
      ["/v1/events?get=/v1/tubes?order=", 400],
      ["/v1/events?get=/v1/", 400],
      ["/v1/tubes?sort=", 400],
      ["/v1/tubes?fields=", 400],
      ["/v1/connections?sort=", 400],
      ["/v1/connections?state=", 400],
      ["/v1/history?series=", 400],
      ["/v1/tubes/a/history?series=", 400],
      ["/v1/tubes/a/jobs?state=", 400],
      ["/v1/tasks/", 404],
      ["/v1/connections/", 404],
      ["/assets/", 404],
      ["/v1/", 404],
    ] as const) {
      it(`are refused in ${path}`, async () => {
        for (const name of NAMES) {
          const { status: got, json } = await server.ask(`${path}${name}`);
          assert.equal(got, status, `${name}: ${JSON.stringify(json)}`);
          assert.notEqual(json.detail, "");
        }
      });
    }

    it("are ordinary names of tubes", async () => {
      for (const name of NAMES) {
        const path = `/v1/tubes/${name}`;
        assert.equal((await server.ask(`${path}/jobs`, { json: { body: name } })).status, 201);
        assert.equal((await server.ask(path)).json.jobs.ready, 1);
        const [seen] = (await server.ask(`/v1/events?get=${path}`)).json.answers;
        assert.equal(seen.content.name, name);
        assert.equal((await server.ask(`${path}/history`)).status, 200);
        const json = { tubes: [name], wait: 0 };
        assert.equal((await server.ask("/v1/reserve", { json })).json.jobs[0].tube, name);
      }
      await eventually("the table of tubes has them", async () => {
        const { items } = (await server.ask("/v1/tubes?fields=name&limit=1000")).json;
        const listed: string[] = items.map(({ name }: { name: string }) => name);
        return NAMES.every((name) => listed.includes(name));
      });
    });
  });

  it("a parameter that comes twice is refused, in a watched path, too", async () => {
    for (const path of ["/v1/tubes?limit=5&limit=6", "/v1/events?get=/v1/tubes%3Flimit=5%26limit=6"]) {
      const { status, json } = await server.ask(path);
      assert.deepEqual([status, json.code], [400, "bad-request"], path);
    }
  });

  it("an encoded body is refused, and stored nowhere", async () => {
    for (const type of ["text/plain", "application/json", "application/vnd.msgpack"]) {
      const headers = { "content-type": type, "content-encoding": "gzip" };
      const packed = await server.ask("/v1/tubes/packed/jobs", {
        method: "POST",
        body: '{"body":"x"}',
        headers,
      });
      assert.deepEqual([packed.status, packed.json.code], [415, "unsupported-media-type"], type);
    }
    const headers = { "content-type": "application/json", "content-encoding": "identity" };
    const plain = await server.ask("/v1/tubes/packed/jobs", {
      method: "POST",
      body: '{"body":"x"}',
      headers,
    });
    assert.equal(plain.status, 201);
    assert.equal((await server.ask("/v1/tubes/packed")).json.totals.puts, 1);
  });

  it("an invalid cursor of a list is refused", async () => {
    const numbers = ["-1", "1.5", "1e308", "1e400", "9007199254740992", "null", '"1"', "true", "[0]", "{}"];
    for (const number of numbers) {
      for (const [path, cursor] of [
        ["/v1/tubes", `[${number},"a"]`],
        ["/v1/jobs", `[0,${number}]`],
        ["/v1/jobs", `[${number},0]`],
        ["/v1/tubes/a/jobs", `[0,${number}]`],
      ] as const) {
        const { status, json } = await server.ask(`${path}?cursor=${cursorOf(cursor)}`);
        assert.deepEqual([status, json.code], [400, "bad-cursor"], `${path} ${cursor}`);
      }
    }
    for (const cursor of ["", "%00", "W10", cursorOf("[0,1,2]"), cursorOf('{"0":0,"1":0,"length":2}')])
      assert.equal((await server.ask(`/v1/jobs?cursor=${cursor}`)).status, 400, cursor);
  });

  describe("numbers", () => {
    const TOO_LARGE = ["4294967296", "9007199254740993", "18446744073709551616", "1e308", "1e400"];
    const NEVER = ["-1", "-0.5", "NaN", "Infinity", '"x"', "[1]", "{}"];
    const NO_WHOLE = ["1.5", "1e-7"];

    for (const [name, method, path, body] of [
      ["pri", "POST", "/v1/tubes/n/jobs", '{"body":"","pri":@}'],
      ["ttr", "POST", "/v1/tubes/n/jobs", '{"body":"","ttr":@}'],
      ["pri of a batch", "POST", "/v1/tubes/n/jobs", '{"jobs":[{"body":"","pri":@}]}'],
      ["pri in the address", "POST", "/v1/tubes/n/jobs?pri=@", '{"body":""}'],
      ["ttr in the address", "POST", "/v1/tubes/n/jobs?ttr=@", '{"body":""}'],
      ["max of a reserve", "POST", "/v1/reserve", '{"tubes":["n"],"wait":0,"max":@}'],
      ["limit", "GET", "/v1/tubes?limit=@", undefined],
      ["limit of jobs", "GET", "/v1/jobs?limit=@", undefined],
      ["limit of connections", "GET", "/v1/connections?limit=@", undefined],
      ["bodyMax", "GET", "/v1/jobs?bodyMax=@", undefined],
      ["seconds of a history", "GET", "/v1/history?seconds=@", undefined],
      ["from of a view", "GET", "/v1/events?get=/v1/tubes?from=@", undefined],
      ["pri of an update", "POST", "/v1/jobs/1/update", '{"pri":@}'],
      ["ttr of an update", "POST", "/v1/jobs/1/update", '{"ttr":@}'],
    ] as const) {
      it(`that ${name} can't have are refused`, async () => {
        for (const number of [...TOO_LARGE, ...NEVER, ...NO_WHOLE]) {
          // Invalid JSON is refused as such.
          const { status, json } = await send(
            method,
            path.replace("@", encodeURIComponent(number)),
            body?.replace("@", number),
          );
          assert.equal(status, 400, `${number}: ${status} ${JSON.stringify(json)}`);
        }
      });
    }

    for (const [name, method, path, body] of [
      ["delay", "POST", "/v1/tubes/n/jobs", '{"body":"","delay":@}'],
      ["delay in the address", "POST", "/v1/tubes/n/jobs?delay=@", '{"body":""}'],
      ["wait", "POST", "/v1/reserve", '{"tubes":["n"],"wait":@}'],
      ["seconds of a pause", "PUT", "/v1/tubes/a/pause", '{"seconds":@}'],
      ["delay of an update", "POST", "/v1/jobs/1/update", '{"delay":@}'],
      ["ttl of an update", "POST", "/v1/jobs/1/update", '{"ttl":@}'],
    ] as const) {
      it(`that ${name} can't have are refused`, async () => {
        for (const number of [...TOO_LARGE, ...NEVER]) {
          const { status, json } = await send(
            method,
            path.replace("@", encodeURIComponent(number)),
            body.replace("@", number),
          );
          assert.equal(status, 400, `${number}: ${status} ${JSON.stringify(json)}`);
        }
      });
    }

    it("that are allowed stay unchanged", async () => {
      for (const [field, number] of [
        ["pri", 0],
        ["pri", 4_294_967_295],
        ["ttr", 1],
        ["ttr", 4_294_967_295],
        ["delay", 4_294_967_295],
      ] as const) {
        const { status, json } = await server.ask("/v1/tubes/kept/jobs", {
          json: { body: "", [field]: number },
        });
        assert.equal(status, 201);
        assert.equal((await server.ask(`/v1/jobs/${json.id}`)).json[field], number, field);
        const asked = await server.ask(`/v1/tubes/kept/jobs?${field}=${number}`, { json: { body: "" } });
        assert.equal((await server.ask(`/v1/jobs/${asked.json.id}`)).json[field], number, `${field} asked`);
      }
    });

    for (const id of [
      "9007199254740992",
      "9007199254740993",
      "18446744073709551615",
      "1e3",
      "1e400",
      "1.5",
      "-1",
      "NaN",
      "0x1",
      "+1",
      "%201",
    ]) {
      it(`"${id}" is not a job id and selects no job`, async () => {
        const was = (await server.ask("/v1/jobs/1")).json;
        for (const [method, path, body] of [
          ["GET", `/v1/jobs/${id}`],
          ["GET", `/v1/jobs/${id}/body`],
          ["GET", `/v1/events?get=/v1/jobs/${id}`],
          ["DELETE", `/v1/jobs/${id}`],
          ["POST", `/v1/jobs/${id}/reserve`],
          ["POST", `/v1/jobs/${id}/kick`],
          ["POST", `/v1/jobs/${id}/release`],
          ["POST", `/v1/jobs/${id}/update`, '{"pri":1}'],
          ["POST", `/v1/jobs/${id}/move`, '{"to":"b"}'],
        ] as const) {
          const { status, json } = await send(method, path, body);
          assert.ok([400, 404].includes(status), `${method} ${path}: ${status} ${JSON.stringify(json)}`);
        }
        const { age: _before, readySince: _then, ...before } = was;
        const { age: _after, readySince: _now, ...now } = (await server.ask("/v1/jobs/1")).json;
        assert.deepEqual(now, before);
      });
    }
  });

  it("HEAD of a stream gets its headers and ends", async () => {
    const streams = async (): Promise<string> =>
      /^runnerbean_http_streams (\d+)$/m.exec((await server.ask("/metrics?tubes=none")).text)![1]!;
    // Answered one behind the other: a stream would hold up the second for ever.
    const socket = connect(server.port, "127.0.0.1");
    let text = "";
    socket.on("data", (chunk) => (text += `${chunk}`));
    const head = [
      "HEAD /v1/events?get=/v1/health HTTP/1.1",
      "Host: localhost",
      "Accept: text/event-stream",
      "",
      "",
    ];
    const next = ["GET /livez HTTP/1.1", "Host: localhost", "", ""];
    socket.write([...head, ...next].join("\r\n"));
    const answers = await eventually("both answers", () => {
      const found = text.match(/HTTP\/1\.1 200/g);
      return found?.length === 2 ? text : undefined;
    });
    assert.match(answers, /content-type: text\/event-stream; charset=utf-8/i);
    assert.equal(await streams(), "0");
    socket.destroy();
  });
});

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
