// Tests of schedules in the client.

import assert from "node:assert/strict";
import { it } from "node:test";
import { BadSchedule, json, NotFound, NotSupported, TubeFull } from "../../src/client/client.ts";
import { describeOnEach, textOf } from "./client-suite.ts";

describeOnEach("schedules of the client", {}, (server) => {
  const { testOurs } = server;

  if (server.isPlain)
    it("are an extension", async (t) => {
      const [queue, tube] = await server.open(t);
      const set = queue.schedule("nightly").set(tube, "x", { cron: "@daily" });
      await assert.rejects(set, NotSupported);
      await assert.rejects(queue.schedules().next(), NotSupported);
    });

  testOurs("are set, shown, and replaced", async (t) => {
    const [queue, tube] = await server.open(t);
    const name = `nächtlich/${tube}`;
    const schedule = queue.schedule(name);
    await schedule.set(tube, "é\n", {
      cron: " 30 2  * * MON-FRI ",
      tz: "Europe/Berlin",
      missed: "all",
      overlap: "skip",
      pri: 7,
      delay: 1.5,
      ttr: 90,
      ttl: 3600,
      group: "größe",
      weight: 3,
      meta: { tenant: "köln" },
    });
    const { next, nextRuns, shown, ...seen } = await schedule.inspect();
    assert.deepEqual(seen, {
      ...{ name, tube, cron: "30 2 * * MON-FRI", every: undefined, tz: "Europe/Berlin", missed: "all" },
      ...{ paused: false, last: undefined, fired: 0, missedTicks: 0, refusals: 0, bytes: 3, runs: 0 },
      ...{ overlap: "skip", skipped: 0 },
      ...{ duplicates: 0, lastRefusal: undefined, pri: 7, delay: 1.5, ttr: 90, ttl: 3600 },
      ...{ group: "größe", weight: 3, meta: { tenant: "köln" } },
    });
    assert.equal(Buffer.from(shown).toString(), "é\n");
    assert.equal(nextRuns.length, 5);
    assert.deepEqual(next, nextRuns[0]);
    for (const run of nextRuns) {
      assert.ok(run.getTime() > Date.now() - 60_000);
      assert.match(run.toLocaleTimeString("en-GB", { timeZone: "Europe/Berlin" }), /^02:30:00$/);
    }
    await schedule.set(tube, "y", { every: 60, group: "none" });
    assert.equal((await schedule.inspect()).group, "none");
    await schedule.set(tube, "y", { every: 3600.5 });
    const replaced = await schedule.inspect();
    assert.deepEqual(
      [replaced.cron, replaced.every, replaced.tz, replaced.missed, replaced.group, replaced.meta],
      [undefined, 3600.5, "UTC", "once", undefined, {}],
    );
    await schedule.delete();
    await assert.rejects(schedule.inspect(), NotFound);
    await assert.rejects(schedule.delete(), NotFound);
  });

  testOurs("put jobs, now and at their times", async (t) => {
    const [queue, tube] = await server.open(t);
    const schedule = queue.schedule(`each-${tube}`);
    await schedule.set(tube, "tick", { every: 1, meta: { tenant: "a" } });
    const id = await schedule.run();
    const job = await queue.reserve();
    assert.deepEqual([job.id, textOf(job)], [id, "tick"]);
    assert.deepEqual(job.meta, { schedule: `each-${tube}@now`, tenant: "a" });
    await job.delete();
    const tick = await queue.reserve();
    const { fired, runs, last } = await schedule.inspect();
    assert.ok(fired >= 1 && runs === 1);
    assert.equal(tick.meta["schedule"]?.slice(0, `each-${tube}@2`.length), `each-${tube}@2`);
    assert.ok(last !== undefined && last.getTime() <= Date.now());
    await schedule.pause();
    assert.equal((await schedule.inspect()).paused, true);
    await schedule.resume();
    assert.equal((await schedule.inspect()).paused, false);
    await queue.tube(tube).set({ maxJobs: 1 });
    await schedule.pause();
    await assert.rejects(async () => {
      for (;;) await schedule.run();
    }, TubeFull);
    await schedule.delete();
  });

  testOurs("are listed by name, page by page, or of a tube", async (t) => {
    const [queue, tube] = await server.open(t);
    const names = Array.from({ length: 1005 }, (_, index) => `p${String(index).padStart(4, "0")}-ü`);
    await Promise.all(
      names.map((name, index) =>
        queue.schedule(name).set(index % 2 === 0 ? tube : `${tube}-odd`, "x", { cron: "@yearly" }),
      ),
    );
    const all: string[] = [];
    for await (const { name } of queue.schedules()) if (name.startsWith("p")) all.push(name);
    assert.deepEqual(all, names);
    const odd: string[] = [];
    for await (const listed of queue.schedules({ tube: `${tube}-odd` })) {
      assert.deepEqual(
        [listed.tube, listed.cron, listed.every, listed.last, listed.bytes],
        [`${tube}-odd`, "@yearly", undefined, undefined, 1],
      );
      assert.ok(listed.next !== undefined && listed.next.getTime() > Date.now());
      odd.push(listed.name);
    }
    assert.deepEqual(
      odd,
      names.filter((_, index) => index % 2 === 1),
    );
    await Promise.all(names.map((name) => queue.schedule(name).delete()));
  });

  testOurs("are refused with a reason", async (t) => {
    const [queue, tube] = await server.open(t);
    const set = (options: object, name = "bad") => queue.schedule(name).set(tube, "x", options);
    await assert.rejects(set({}), /TypeError: schedule "bad" needs either cron or every/);
    await assert.rejects(set({ cron: "@daily", every: 5 }), TypeError);
    await assert.rejects(
      set({ cron: "61 * * * *" }),
      (error) => error instanceof BadSchedule && /61/.test(error.message),
    );
    await assert.rejects(set({ cron: "@daily", tz: "Mars/Olympus" }), /BadSchedule: .*Mars\/Olympus/);
    await assert.rejects(set({ every: 0.5 }), BadSchedule);
    for (const name of ["", "a b", "x".repeat(129), "a\nb"])
      assert.throws(() => queue.schedule(name), /is not a valid schedule name/);
    await assert.rejects(queue.schedule("unknown").run(), NotFound);
  });

  testOurs("encode their bodies as puts do", async (t) => {
    const [queue, tube] = await server.open(t, { codec: json<{ to: string }>() } as object);
    const schedule = queue.schedule(`json-${tube}`);
    await schedule.set(tube, { to: "a" } as never, { cron: "@yearly" });
    await schedule.run();
    assert.deepEqual((await queue.reserve()).body, { to: "a" });
    await schedule.delete();
  });
});
