// Tests of read requests over HTTP: probes, the server, tubes, jobs, errors, metrics. Against one
// running server.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { Validator } from "@seriousme/openapi-schema-validator";
import { unpack } from "msgpackr";
import { eventually } from "../support/eventually.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { type HttpServer, startHttpServer } from "../support/server/http-server.ts";
import { WireClient } from "../support/server/wire-client.ts";

const OPENMETRICS = "application/openmetrics-text; version=1.0.0";

/** The value of a series in the text of metrics. */
function seriesIn(text: string, name: string): number | undefined {
  const line = text.split("\n").find((each) => each.startsWith(`${name} `));
  return line === undefined ? undefined : Number(line.slice(name.length + 1));
}

/** The pairs of a YAML reply, as text. */
const pairsOf = (yaml: string): [string, string][] =>
  yaml
    .trimEnd()
    .split("\n")
    .slice(1)
    .map((line) => [
      line.slice(0, line.indexOf(": ")),
      line.slice(line.indexOf(": ") + 2).replaceAll('"', ""),
    ]);

describe("HTTP shows", () => {
  let server: HttpServer;
  let client: WireClient;
  const folder = mkdtempSync(join(tmpdir(), "http-read-"));

  before(async () => {
    server = await startHttpServer("--shards", "3", "--acceptors", "2", "-b", folder);
    client = await WireClient.connect(server.process.address);
    client.send(
      "use mail\r\nput 5 0 60 5\r\nhello\r\nput 2000 0 60 3\r\n\xff\xfe\xfd\r\nput 9 100 60 1\r\nd\r\n",
    );
    client.send("use sms\r\nput 1 0 60 2\r\nxy\r\nwatch sms\r\nignore default\r\nreserve\r\nbury 4 1\r\n");
    for (let reply = 0; reply < 10; reply++) await client.readReply();
  });
  after(async () => {
    client.socket.destroy();
    await server.process.stop();
    rmSync(folder, { recursive: true });
  });

  it("probes that all is well, without version or name", async () => {
    for (const path of ["/livez", "/readyz", "/healthz", "/readyz?for=put", "/readyz?for=work"]) {
      const { status, text } = await server.ask(path);
      assert.deepEqual([status, text], [200, "ok\n"], path);
    }
    const { json } = await server.ask("/livez", { headers: { accept: "application/json" } });
    assert.deepEqual(json, { status: "ok", detail: "ok" });
    assert.equal((await server.ask("/v1/health")).json.ok, true);
  });

  it("the 51 keys of stats, the same as on the wire except for current activity", async () => {
    const { json } = await server.ask("/v1/stats");
    const { body } = await client.ask("stats");
    const wire = pairsOf(body!.toString("latin1"));
    assert.equal(wire.length, 51);
    assert.deepEqual(
      Object.keys(json),
      wire.map(([key]) => key),
    );
    for (const [key, value] of wire)
      if (!/^(rusage|uptime|cmd-stats)/.test(key)) assert.equal(`${json[key]}`, value, key);
  });

  it("a tube like stats-tube, with ages, bytes and totals", async () => {
    const { json } = await server.ask("/v1/tubes/mail");
    assert.deepEqual(json.jobs, { ready: 2, urgent: 1, reserved: 0, delayed: 1, buried: 0 });
    assert.equal(json.bodyBytes, 9);
    assert.equal(json.totals.puts, 3);
    assert.ok(json.oldestReady >= 0 && json.oldestReady < 60);
    assert.equal(json.oldestBuried, null);
    const sms = (await server.ask("/v1/tubes/sms")).json;
    assert.deepEqual(
      [sms.users, sms.watchers, sms.totals.reserves, sms.totals.buries, sms.jobs.buried],
      [1, 1, 1, 1, 1],
    );
    assert.ok(sms.oldestBuried >= 0);
  });

  it("lists of tubes, filtered, sorted, with chosen fields, page by page", async () => {
    const all = await eventually("a table with all tubes", async () => {
      const { json } = await server.ask("/v1/tubes?fresh=true");
      return json.total === 3 && json;
    });
    assert.deepEqual(
      all.items.map(({ name }: { name: string }) => name),
      ["default", "mail", "sms"],
    );
    assert.deepEqual([all.total, all.matched, all.cursor], [3, 3, null]);
    const byPuts = (await server.ask("/v1/tubes?sort=puts&fields=name&match=*m*")).json;
    assert.deepEqual([byPuts.items, byPuts.matched], [[{ name: "mail" }, { name: "sms" }], 2]);
    const first = (await server.ask("/v1/tubes?limit=2")).json;
    const second = (await server.ask(`/v1/tubes?limit=2&cursor=${first.cursor}`)).json;
    assert.deepEqual([first.items.length, second.items[0].name, second.cursor], [2, "sms", null]);
    const oldest = (await server.ask("/v1/tubes?sort=oldest&fields=name,oldestReady")).json;
    assert.equal(oldest.items[0].name, "mail");
  });

  it("304 for a current entity tag until the tube changes", async () => {
    const path = "/v1/tubes?fields=name,jobs&match=tag*&fresh=true";
    const first = await server.ask(path);
    const tag = `${first.headers["etag"]}`;
    assert.match(tag, /^W\/"/);
    for (const known of [tag, tag.slice(2), `"other", ${tag}`, "*"]) {
      const again = await server.ask(path, { headers: { "if-none-match": known } });
      assert.deepEqual([again.status, again.text, again.headers["etag"]], [304, "", tag], known);
    }
    const packed = await server.ask(path, {
      headers: { "if-none-match": tag, accept: "application/vnd.msgpack" },
    });
    assert.equal(packed.status, 200, "in another format it is another answer");
    await client.ask("watch tagged");
    const changed = await eventually("the new tube is in the table", async () => {
      const answer = await server.ask(path, { headers: { "if-none-match": tag } });
      return answer.status === 200 ? answer : undefined;
    });
    assert.deepEqual(
      changed.json.items.map(({ name }: { name: string }) => name),
      ["tagged"],
    );
    await client.ask("ignore tagged");
    const zero = await server.ask("/v1/tubes/none?missing=zero");
    const headers = { "if-none-match": `${zero.headers["etag"]}` };
    assert.equal((await server.ask("/v1/tubes/none?missing=zero", { headers })).status, 304);
    assert.equal((await server.ask("/v1/tubes/none", { headers })).status, 404);
  });

  it("zeros for a missing tube on request, and any name by ?tube=", async () => {
    assert.equal((await server.ask("/v1/tubes/none")).json.code, "tube-not-found");
    assert.equal((await server.ask("/v1/tubes/none?missing=zero")).json.jobs.ready, 0);
    assert.equal((await server.ask("/v1/tubes/-?tube=mail")).json.name, "mail");
    assert.equal((await server.ask("/v1/tubes/-?tube=..")).json.code, "tube-not-found");
    assert.equal((await server.ask(`/v1/tubes/${"%2F".repeat(200)}`)).json.code, "tube-not-found");
    assert.equal((await server.ask(`/v1/tubes/${"a".repeat(201)}`)).json.code, "bad-tube-name");
    assert.equal((await server.ask("/v1/tubes/%C5%81")).json.code, "bad-tube-name");
  });

  it("a job with its unchanged body and its holder", async () => {
    const { json } = await server.ask("/v1/jobs/1");
    const stats = pairsOf((await client.ask("stats-job 1")).body!.toString());
    assert.equal(`${json.file}`, new Map(stats).get("file"));
    assert.deepEqual(
      [json.tube, json.state, json.pri, json.bytes, json.body],
      ["mail", "ready", 5, 5, "hello"],
    );
    assert.ok(json.readySince >= 0 && json.holder === null && !json.truncated);
    assert.equal(
      (await server.ask("/v1/jobs/2")).json.bodyBase64,
      Buffer.from([0xff, 0xfe, 0xfd]).toString("base64"),
    );
    const short = (await server.ask("/v1/jobs/1?bodyMax=2")).json;
    assert.deepEqual([short.body, short.truncated], ["he", true]);
    assert.equal((await server.ask("/v1/jobs/4")).json.state, "buried");
    assert.equal((await server.ask("/v1/jobs/99")).json.code, "job-not-found");
    const body = await server.ask("/v1/jobs/2/body");
    assert.deepEqual([...body.bytes], [0xff, 0xfe, 0xfd]);
    assert.match(`${body.headers["content-disposition"]}`, /^attachment/);
  });

  it("the same as MessagePack, with bodies as bytes", async () => {
    const { bytes, headers } = await server.ask("/v1/jobs/2", {
      headers: { accept: "application/vnd.msgpack" },
    });
    assert.equal(headers["content-type"], "application/vnd.msgpack");
    const job = unpack(bytes) as { id: number; body: Buffer };
    assert.deepEqual([job.id, [...job.body]], [2, [0xff, 0xfe, 0xfd]]);
  });

  it("the server, its threads, log, latency and history", async () => {
    const { json } = await server.ask("/v1/server");
    assert.deepEqual([json.status, json.shards, json.acceptors, json.pid], ["ok", 3, 2, server.process.pid]);
    assert.ok(
      (await server.ask("/v1/threads")).json.threads.some(
        ({ thread }: { thread: string }) => thread === "shard 2",
      ),
    );
    const log = (await server.ask("/v1/binlog")).json;
    assert.ok(log.recordsWritten >= 5 && log.bytes > 0 && log.live > 0 && !log.full);
    assert.equal((await server.ask("/v1/latency")).json.shards.length, 3);
    const history = (await server.ask("/v1/history?seconds=60&series=ready,puts")).json;
    assert.deepEqual([history.step, Object.keys(history.series)], [1, ["ready", "puts"]]);
    const syncs = (await server.ask("/v1/binlog/syncs?seconds=60")).json;
    assert.deepEqual([syncs.step, Object.keys(syncs.series)], [10, ["syncs", "p50", "p99"]]);
  });

  it("errors with a code, a remedy, and the request's id", async () => {
    for (const [path, status, code] of [
      ["/nothing", 404, "not-found"],
      ["/v1/group", 404, "no-group"],
      ["/v1/tubes?limt=3", 400, "bad-request"],
      ["/v1/tubes?limit=0", 400, "bad-request"],
      ["/v1/tubes?sort=nothing", 400, "bad-request"],
      ["/v1/tubes?cursor=nothing", 400, "bad-cursor"],
      ["/v1/tubes?fields=nothing", 400, "bad-request"],
      ["/v1/jobs/x", 400, "bad-request"],
      ["/v1/history?series=nothing", 400, "bad-request"],
      ["/v1/binlog/syncs?seconds=3601", 400, "bad-request"],
      [`/v1/tubes?match=${"a".repeat(9000)}`, 414, "uri-too-long"],
      [`/v1/tubes/${"a".repeat(701)}`, 414, "uri-too-long"],
      ["/v1/tubes/%zz", 400, "bad-request"],
    ] as const) {
      const answer = await server.ask(path);
      assert.deepEqual([answer.status, answer.json.code], [status, code], path);
      assert.equal(answer.headers["content-type"], "application/problem+json");
      assert.ok(answer.json.detail.length > 10);
      assert.equal(answer.json.instance, answer.headers["x-request-id"]);
    }
  });

  it("the allowed methods of a path after a wrong one", async () => {
    const patch = await server.ask("/v1/tubes/mail?x=1", { method: "PATCH" });
    assert.deepEqual([patch.status, patch.json.code], [405, "method-not-allowed"]);
    assert.equal(patch.headers["allow"], "DELETE, GET, HEAD");
    assert.equal((await server.ask("/v1/reserve")).headers["allow"], "POST");
    assert.equal((await server.ask("/v1/reserves", { method: "POST" })).status, 404);
  });

  it("nothing to other host names, and refuses changes from other sites", async () => {
    assert.equal(
      (await server.ask("/v1/tubes", { headers: { host: "evil.example" } })).json.code,
      "wrong-host",
    );
    const crossSite = { method: "POST", headers: { "sec-fetch-site": "cross-site" } };
    assert.equal((await server.ask("/v1/tubes/mail/jobs", crossSite)).json.code, "cross-site");
  });

  it("metrics that pass promtool in both formats", async (t) => {
    const text = await server.ask("/metrics");
    assert.equal(text.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    const open = await server.ask("/metrics", { headers: { accept: OPENMETRICS } });
    assert.match(`${open.headers["content-type"]}`, /^application\/openmetrics-text/);
    assert.ok(open.text.endsWith("# EOF\n"));
    if (!canRun(t, NEEDS.promtool)) return;
    for (const { text: metrics } of [text, await server.ask("/metrics/tubes")]) {
      const checked = spawnSync(NEEDS.promtool.path, ["check", "metrics"], {
        input: metrics,
        encoding: "utf8",
      });
      assert.equal(`${checked.stdout}${checked.stderr}`, "");
      assert.equal(checked.status, 0);
    }
    // It checks the older format only, but reads OpenMetrics where samples have a time.
    const timed = open.text.replace(/^(?!#)(.+)$/gm, "$1 1700000000");
    const blocks = join(folder, "blocks");
    const file = join(folder, "metrics.txt");
    writeFileSync(file, timed);
    const read = spawnSync(NEEDS.promtool.path, ["tsdb", "create-blocks-from", "openmetrics", file, blocks], {
      encoding: "utf8",
    });
    assert.equal(read.status, 0, read.stderr);
  });

  it("metrics that agree with stats and stats-tube", async () => {
    const { text } = await server.ask("/metrics");
    const stats = new Map(pairsOf((await client.ask("stats")).body!.toString("latin1")));
    for (const [series, key] of [
      ["runnerbean_puts_total", "total-jobs"],
      ['runnerbean_jobs{state="ready"}', "current-jobs-ready"],
      ['runnerbean_jobs{state="delayed"}', "current-jobs-delayed"],
      ['runnerbean_jobs{state="buried"}', "current-jobs-buried"],
      ["runnerbean_tubes", "current-tubes"],
      ["runnerbean_connections", "current-connections"],
      ['runnerbean_commands_total{command="put"}', "cmd-put"],
      ['runnerbean_commands_total{command="bury"}', "cmd-bury"],
      ["runnerbean_binlog_records_total", "binlog-records-written"],
    ] as const)
      assert.equal(`${seriesIn(text, series)}`, stats.get(key), series);
    const tube = new Map(pairsOf((await client.ask("stats-tube mail")).body!.toString("latin1")));
    assert.equal(`${seriesIn(text, 'runnerbean_tube_puts_total{tube="mail"}')}`, tube.get("total-jobs"));
    assert.equal(
      `${seriesIn(text, 'runnerbean_tube_jobs{tube="mail",state="ready"}')}`,
      tube.get("current-jobs-ready"),
    );
    assert.equal(seriesIn(text, "runnerbean_job_wait_seconds_count"), 1);
    assert.equal(seriesIn(text, "runnerbean_job_hold_seconds_count"), 1);
    assert.equal(seriesIn(text, "runnerbean_job_body_bytes_count"), 4);
    // All puts were answered, so they are written; the last record may wait for the disk.
    assert.ok(seriesIn(text, "runnerbean_binlog_written_bytes_total")! > 100);
    const kinds = ["live", "dead", "spare"].map((kind) =>
      seriesIn(text, `runnerbean_binlog_bytes{kind="${kind}"}`),
    );
    const log = (await server.ask("/v1/binlog")).json;
    assert.deepEqual(kinds, [log.live, log.dead, log.spare]);
    assert.equal(log.live + log.dead + log.spare, log.bytes);
    assert.equal(seriesIn(text, "runnerbean_binlog_compacting"), 0);
    const none = (await server.ask("/metrics?tubes=none")).text;
    assert.ok(!none.includes("runnerbean_tube_"));
    const some = (await server.ask("/metrics/tubes?match=sm*&series=tube_buries,tube_jobs")).text;
    assert.equal(seriesIn(some, 'runnerbean_tube_buries_total{tube="sms"}'), 1);
    assert.ok(!some.includes("mail") && !some.includes("tube_puts"));
  });

  it("a valid OpenAPI document with every route", async () => {
    const { json } = await server.ask("/v1/openapi.json");
    assert.equal(json.openapi, "3.1.0");
    const { valid, errors } = await new Validator().validate(structuredClone(json));
    assert.ok(valid, JSON.stringify(errors));
    for (const path of ["/v1/tubes", "/v1/tubes/{tube}", "/v1/jobs/{id}", "/metrics", "/livez"])
      assert.ok(json.paths[path]?.get !== undefined, path);
  });

  it("long answers compressed if the client accepts it", async () => {
    const { headers, bytes } = await server.ask("/v1/openapi.json", {
      headers: { "accept-encoding": "gzip" },
    });
    assert.deepEqual([headers["content-encoding"], bytes[0], bytes[1]], ["gzip", 0x1f, 0x8b]);
  });
});
