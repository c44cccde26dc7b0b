// Realistic cycle with the npm client `fivebeans`.

import assert from "node:assert/strict";
import { once } from "node:events";
import fivebeans from "fivebeans";

type Callback = (error: string | null, ...results: unknown[]) => void;

/** Promises over fivebeans' callbacks: one method, `ask`, for all commands. */
class Fivebeans {
  readonly #client: fivebeans.client;

  constructor(client: fivebeans.client) {
    this.#client = client;
  }

  static async connect(port: number): Promise<Fivebeans> {
    const client = new fivebeans.client("127.0.0.1", port);
    const connected = once(client, "connect");
    client.connect();
    await connected;
    return new Fivebeans(client);
  }

  ask(command: string, ...args: readonly unknown[]): Promise<unknown[]> {
    return new Promise((resolve, reject) => {
      const done: Callback = (error, ...results) =>
        error === null ? resolve(results) : reject(new Error(error));
      const method = this.#client[command] as (...args: readonly unknown[]) => void;
      method.call(this.#client, ...args, done);
    });
  }

  end(): void {
    this.#client.end();
  }
}

export async function cycleWithFivebeans(port: number): Promise<void> {
  const producer = await Fivebeans.connect(port);
  const worker = await Fivebeans.connect(port);

  assert.deepEqual(await producer.ask("use", "mails"), ["mails"]);
  assert.deepEqual(await producer.ask("list_tube_used"), ["mails"]);
  assert.deepEqual(await worker.ask("watch", "mails"), ["2"]);
  assert.deepEqual(await worker.ask("ignore", "default"), ["1"]);
  await assert.rejects(worker.ask("ignore", "mails"), /NOT_IGNORED/);

  assert.deepEqual(await producer.ask("put", 10, 0, 60, "hello"), ["1"]);
  assert.deepEqual(await producer.ask("put", 1, 0, 60, "urgent"), ["2"]);
  assert.deepEqual(await producer.ask("put", 1, 100, 60, "later"), ["3"]);

  const [id, payload] = await worker.ask("reserve");
  assert.equal(id, "2");
  assert.equal(`${payload}`, "urgent");
  await worker.ask("touch", 2);
  await worker.ask("release", 2, 20, 100);
  const [released] = (await producer.ask("stats_job", 2)) as [Record<string, unknown>];
  assert.equal(released["state"], "delayed");
  assert.equal(released["tube"], "mails");
  assert.equal(Object.keys(released).length, 14);
  await producer.ask("kick_job", 2);

  assert.equal((await worker.ask("reserve_with_timeout", 1))[0], "1");
  await worker.ask("bury", 1, 5);
  assert.equal((await producer.ask("peek_buried"))[0], "1");
  assert.equal((await producer.ask("peek_delayed"))[0], "3");
  assert.equal((await producer.ask("peek_ready"))[0], "2");
  assert.equal(`${(await producer.ask("peek", 3))[1]}`, "later");
  assert.deepEqual(await producer.ask("kick", 10), ["1"]);

  await producer.ask("pause_tube", "mails", 100);
  await assert.rejects(worker.ask("reserve_with_timeout", 0), /TIMED_OUT/);
  await producer.ask("pause_tube", "mails", 0);
  const [tube] = (await producer.ask("stats_tube", "mails")) as [Record<string, unknown>];
  assert.equal(tube["name"], "mails");
  assert.equal(tube["current-jobs-ready"], 2);
  assert.equal(Object.keys(tube).length, 14);
  const [stats] = (await producer.ask("stats")) as [Record<string, unknown>];
  assert.equal(stats["current-connections"], 2);
  assert.equal(Object.keys(stats).length, 51);
  assert.deepEqual(await producer.ask("list_tubes"), [["default", "mails"]]);
  assert.deepEqual(await worker.ask("list_tubes_watched"), [["mails"]]);

  for (const jobId of [1, 2, 3]) await worker.ask("destroy", jobId);
  await assert.rejects(worker.ask("destroy", 1), /NOT_FOUND/);

  const waiting = worker.ask("reserve");
  await producer.ask("put", 0, 0, 60, "at last");
  assert.equal((await waiting)[0], "4");
  worker.end();
  producer.end();
}
