// Realistic cycle with the npm client `jackd`.

import assert from "node:assert/strict";
import jackd from "jackd";

// At run time the module is the class itself; its types describe a module with a default export.
const JackdClient = jackd as unknown as typeof jackd.default;

export async function cycleWithJackd(port: number): Promise<void> {
  const producer = new JackdClient();
  const worker = new JackdClient();
  await producer.connect({ host: "127.0.0.1", port });
  await worker.connect({ host: "127.0.0.1", port });

  assert.equal(await producer.use("mails"), "mails");
  assert.equal(await producer.listTubeUsed(), "mails");
  assert.equal(await worker.watch("mails"), 2);
  assert.equal(await worker.ignore("default"), 1);

  const first = await producer.put("hello", { priority: 10, ttr: 60 });
  const urgent = await producer.put({ to: "bean", text: "gr\u00fc\u00dfe" }, { priority: 1 });
  const later = await producer.put("a\r\nb\0", { delay: 100 });
  assert.deepEqual([first, urgent, later], ["1", "2", "3"]);

  const job = await worker.reserve();
  assert.equal(job.id, urgent);
  assert.deepEqual(JSON.parse(job.payload.toString()), { to: "bean", text: "gr\u00fc\u00dfe" });
  await worker.touch(urgent);
  await worker.release(urgent, { priority: 20, delay: 100 });
  assert.match(await producer.statsJob(urgent), /state: delayed\npri: 20\n/);
  await producer.kickJob(urgent);

  const next = await worker.reserveWithTimeout(1);
  assert.equal(next.id, first);
  assert.equal(next.payload.toString(), "hello");
  await worker.bury(first, 5);
  assert.equal((await producer.peekBuried()).id, first);
  assert.equal((await producer.peekDelayed()).id, later);
  assert.equal((await producer.peekReady()).id, urgent);
  assert.equal((await producer.peek(later)).payload.toString(), "a\r\nb\0");
  assert.equal(await producer.kick(10), 1);

  // No pauseTube: this version of the client forgets its CR LF.
  assert.equal((await worker.reserveJob(Number(later))).id, later);
  assert.match(await producer.statsTube("mails"), /current-jobs-reserved: 1\n/);
  assert.match(await producer.stats(""), /current-connections: 2\n/);
  assert.match(await producer.listTubes(""), /- default\n- mails\n/);
  assert.match(await worker.listTubesWatched(""), /- mails\n/);

  for (const id of [first, urgent, later]) await worker.delete(id);
  await assert.rejects(worker.delete(first), /NOT_FOUND/);

  // A worker that waits gets what comes.
  const waiting = worker.reserve();
  const last = await producer.put("at last");
  assert.equal((await waiting).id, last);
  await worker.delete(last);

  // A body that comes in several pieces.
  const big = "x".repeat(65_535);
  await producer.put(big);
  assert.equal((await worker.reserve()).payload.toString(), big);
  await worker.quit();
  await producer.quit();
}
