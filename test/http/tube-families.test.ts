// Tests of metrics of tubes that have policies: deaths, expiries, duplicates, refusals and waits
// for a rate, with series of their own and in the sum of the others.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { eventually } from "../support/eventually.ts";
import { type HttpServer, startHttpServer } from "../support/server/http-server.ts";
import { WireClient } from "../support/server/wire-client.ts";

describe("metrics of tubes with policies", () => {
  let server: HttpServer;
  let client: WireClient;
  const folder = mkdtempSync(join(tmpdir(), "runnerbean-metrics-"));
  before(async () => {
    const config = join(folder, "runnerbean.toml");
    writeFileSync(config, '[metrics]\nmax-tubes = 2\ntubes = ["mail", "dead"]\n');
    server = await startHttpServer("--shards", "2", "--acceptors", "1", "--config", config);
    client = await WireClient.connect(server.process.address);
  });
  after(async () => {
    client.close();
    await server.process.stop();
    rmSync(folder, { recursive: true });
  });

  const say = async (line: string): Promise<string> => (await client.ask(line)).line;
  /** Returns the samples of a metric by tube, "" for the one without. */
  const samples = async (name: string): Promise<Record<string, number>> => {
    const { text } = await server.ask("/metrics");
    const lines = text.matchAll(new RegExp(`^runnerbean_${name}(?:\\{tube="([^"]*)"\\})? (\\S+)$`, "gm"));
    return Object.fromEntries(Array.from(lines, ([, tube = "", value]) => [tube, Number(value)]));
  };

  /** Makes one of everything happen in a tube. */
  const misbehave = async (tube: string): Promise<void> => {
    await say(`set-tube ${tube} max-attempts=1 dead-letter=dead max-jobs=2 rate=1/3600`);
    await say("ignore default");
    await say(`watch ${tube}`);
    assert.match(await say(`put-in-tube ${tube} 0 0 60 1 unique=a\r\nx`), /^INSERTED/);
    assert.match(await say(`put-in-tube ${tube} 0 0 60 1 unique=a\r\nx`), /^DUPLICATE/);
    assert.match(await say(`put-in-tube ${tube} 9 0 60 1 ttl=0.001\r\nx`), /^INSERTED|^TUBE_FULL/);
    await eventually("it has expired", async () => {
      const { json } = await server.ask(`/v1/tubes/${tube}?missing=zero`);
      return json.totals.expiries === 1;
    });
    assert.match(await say(`put-in-tube ${tube} 0 0 60 1\r\nx`), /^INSERTED/);
    assert.equal(await say(`put-in-tube ${tube} 0 0 60 1\r\nx`), "TUBE_FULL");
    // The rate allows one job an hour.
    const [, id] = /^RESERVED (\d+)/.exec(await say("reserve-with-timeout 5"))!;
    assert.equal(await say(`release ${id} 0 0`), "RELEASED");
    await say("watch default");
    await say(`ignore ${tube}`);
  };

  it("count what happens, and add up over all tubes", async () => {
    await misbehave("mail");
    await misbehave("fax");
    await misbehave("sms");
    // The first scrape chooses the tubes with series.
    await eventually("the table of tubes is as new", async () => {
      const { json } = await server.ask("/v1/tubes?match=dead&fresh=true");
      return json.items[0]?.jobs.ready === 3;
    });
    for (const name of ["deaths", "expiries", "duplicates", "refusals", "rate_waits"]) {
      const all = (await samples(`${name}_total`))[""];
      assert.equal(all, 3, name);
      await eventually(`the table of tubes is as new: ${name}`, async () => {
        const tubes = await samples(`tube_${name}_total`);
        return tubes["mail"] === 1 && tubes["*"] === 2 && tubes["dead"] === 0;
      });
    }
    const { totals, rates } = (await server.ask("/v1/tubes/mail")).json;
    const { deaths, expiries, duplicates, refusals, rateWaits } = totals;
    assert.deepEqual([deaths, expiries, duplicates, refusals, rateWaits], [1, 1, 1, 1, 1]);
    assert.equal(typeof rates.deaths, "number");
    const [first] = (await server.ask("/v1/tubes?sort=deaths&fresh=true")).json.items;
    assert.equal(first.totals.deaths, 1);
  });

  it("tell how long jobs wait and are held, in a tube and in all others", async () => {
    const counts = async (kind: string): Promise<Record<string, number>> =>
      await samples(`tube_${kind}_seconds_count`);
    const work = async (tube: string): Promise<void> => {
      await say(`watch ${tube}`);
      await say("ignore default");
      await say(`put-in-tube ${tube} 0 0 60 1\r\nx`);
      const [, id] = /^RESERVED (\d+)/.exec(await say("reserve-with-timeout 5"))!;
      assert.equal(await say(`delete ${id}`), "DELETED");
      // With its last watcher, the tube ends.
      await say("watch default");
      await say(`ignore ${tube}`);
    };
    await say("set-tube mail rate= max-jobs= dead-letter=");
    await say("watch mail");
    const before = await counts("wait");
    assert.equal((await counts("hold"))["mail"], before["mail"]);
    for (const tube of ["mail", "other", "mail", "other"]) await work(tube);
    await eventually("all are counted", async () => {
      const after = await counts("wait");
      return after["mail"] === before["mail"]! + 2 && after["*"] === before["*"]! + 2;
    });
    for (const kind of ["wait", "hold"]) {
      const all = Object.values(await counts(kind)).reduce((sum, count) => sum + count, 0);
      assert.equal(all, (await samples(`job_${kind}_seconds_count`))[""]);
    }
    const { text } = await server.ask("/metrics");
    const buckets = [...text.matchAll(/^runnerbean_tube_wait_seconds_bucket\{tube="mail",le="([^"]+)"\}/gm)];
    assert.deepEqual(
      buckets.map(([, le]) => le),
      ["0.01", "0.1", "1", "10", "60", "600", "3600", "86400", "+Inf"],
    );
  });

  it("tell the quantiles of measured tubes, sort by them, and tell which are not measured", async () => {
    const tube = async (name: string) => (await server.ask(`/v1/tubes/${name}?missing=zero`)).json;
    const { times } = await tube("mail");
    assert.ok(times.wait.count >= 2 && times.hold.count >= 2, JSON.stringify(times));
    for (const { p50, p99 } of [times.wait, times.hold]) assert.ok(p50 > 0 && p99 >= p50);
    // Only two tubes have series.
    await say("put-in-tube third 0 0 60 1\r\nx");
    assert.equal((await tube("third")).times, null);
    assert.equal((await tube("nothing")).times, null);
    assert.equal((await server.ask("/v1/tubes/third", { method: "DELETE" })).status, 200);
    const { items } = (await server.ask("/v1/tubes?sort=waitP99&fresh=true&fields=name,times")).json;
    assert.equal(items[0].name, "mail");
    assert.ok(items.slice(2).every(({ times }: { times: unknown }) => times === null));
  });

  it("tell dead-letter tubes, paused tubes and those that nobody watches apart", async () => {
    await say("put-in-tube lonely 0 0 60 1\r\nx");
    await say("put-in-tube resting 0 0 60 1\r\nx");
    await say("pause-tube resting 1000");
    await eventually("the table of tubes is as new", async () => {
      // mail, fax, sms and lonely have a ready job.
      return (await samples("tubes_unwatched"))[""] === 4;
    });
    assert.equal((await samples("tubes_paused"))[""], 1);
    assert.equal((await samples("tubes_holding_dead"))[""], 1);
    assert.deepEqual(await samples("tube_holds_dead"), { mail: 0, dead: 1, "*": 0 });
  });
});
