// Tests of event streams: a client that does not read is sent nothing, one without permission is
// disconnected, only changes are sent, and streams are limited.

import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { Problem } from "../../../../src/http/api/problem.ts";
import {
  ANSWER_BYTES_MAX,
  answerOf,
  EventHub,
  type Sink,
  STREAMS_MAX,
  STREAMS_PER_CLIENT_MAX,
} from "../../../../src/http/app/event-routes.ts";
import type { Service } from "../../../../src/http/queue/service.ts";

class Reader implements Sink {
  readonly chunks: string[] = [];
  writableNeedDrain = false;
  ended = false;

  write(chunk: string): boolean {
    this.chunks.push(chunk);
    return true;
  }

  end(): void {
    this.ended = true;
  }

  /** The answers that came, by path. */
  get answers(): { path: string; status: number; content: { n?: number; detail?: string } }[] {
    return [...this.chunks.join("").matchAll(/^event: answer\ndata: (.*)$/gm)].map(([, data]) =>
      JSON.parse(data!),
    );
  }
}

interface Scene {
  readonly hub: EventHub;
  /** Values of the metrics. */
  readonly state: { streams: number };
  /** How often it has looked at each path. */
  readonly looks: Record<string, number>;
  /** What a path answers, if not a number that rises. */
  readonly answers: Record<string, () => Promise<object>>;
  open(client: string, paths: readonly string[], sink: Sink, stands?: () => boolean): Promise<() => void>;
  second(): Promise<void>;
}

function hubOf(t: TestContext): Scene {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let nowMs = 0;
  const state = { streams: 0 };
  const service: Partial<Record<keyof Service, unknown>> = {
    nowMs: () => nowMs,
    wallMs: () => nowMs,
    state,
  };
  const hub = new EventHub(service as Service);
  const looks: Record<string, number> = {};
  const answers: Scene["answers"] = {};
  const open: Scene["open"] = async (client, paths, sink, stands) => {
    const all = paths.map((path) => ({
      path,
      key: path,
      look: async () => {
        const n = (looks[path] = (looks[path] ?? 0) + 1);
        return (await answers[path]?.()) ?? { n };
      },
    }));
    return hub.open(client, all, await Promise.all(all.map(answerOf)), sink, stands);
  };
  const second = async (): Promise<void> => {
    nowMs += 1000;
    t.mock.timers.tick(1000);
    for (let turn = 0; turn < 20; turn++) await Promise.resolve();
    t.mock.timers.tick(100);
    for (let turn = 0; turn < 20; turn++) await Promise.resolve();
  };
  t.after(() => hub.stop());
  return { hub, state, looks, answers, open, second };
}

describe("EventHub", () => {
  it("looks once for all streams, and queues nothing for a slow reader", async (t) => {
    const { looks, open, second } = hubOf(t);
    const [reads, stops] = [new Reader(), new Reader()];
    await open("a", ["/log"], reads);
    await open("b", ["/log"], stops);
    stops.writableNeedDrain = true;
    const before = stops.chunks.length;
    for (let n = 0; n < 50; n++) await second();
    assert.equal(stops.chunks.length, before);
    assert.ok(reads.answers.length >= 45, `${reads.answers.length} answers`);
    assert.ok(looks["/log"]! <= 52, `${looks["/log"]} looks for two streams`);
    stops.writableNeedDrain = false;
    await second();
    await second();
    assert.ok(stops.answers.length <= 3);
    assert.deepEqual(stops.answers.at(-1), reads.answers.at(-1));
  });

  it("sends what has changed, and each second when it looked", async (t) => {
    const { answers, open, second } = hubOf(t);
    answers["/still"] = async () => ({ n: 7 });
    const reader = new Reader();
    await open("a", ["/still", "/moving", "/still"], reader);
    assert.match(
      reader.chunks[0]!,
      /^event: answer\n.*\n\nevent: answer\n.*\n\nevent: at\ndata: "1970-.*"\n\n$/,
    );
    for (let n = 0; n < 10; n++) await second();
    assert.equal(reader.answers.filter(({ path }) => path === "/still").length, 1);
    assert.ok(reader.answers.filter(({ path }) => path === "/moving").length >= 9);
    assert.ok(reader.chunks.every((chunk) => /event: at\ndata: "[^"]+"\n\n$/.test(chunk)));
  });

  it("sends a problem in place of an answer above the limit, which is in bytes", async (t) => {
    const { answers, open, second } = hubOf(t);
    const frame = Buffer.byteLength(JSON.stringify({ path: "/log", status: 200, content: { text: "" } }));
    let text = "ä".repeat(ANSWER_BYTES_MAX / 2);
    answers["/log"] = async () => ({ text });
    const reader = new Reader();
    await open("a", ["/log"], reader);
    const { status, content } = reader.answers[0]!;
    assert.equal(status, 413);
    assert.match(content.detail!, /more to show than the 64 KiB that the server sends/);
    text = "x".repeat(ANSWER_BYTES_MAX - frame);
    await second();
    await second();
    assert.equal(reader.answers.at(-1)!.status, 200);
  });

  it("goes on after a problem, and says that a look doesn't end, while others go on", async (t) => {
    const { answers, open, second } = hubOf(t);
    const reader = new Reader();
    await open("a", ["/gone", "/hangs", "/moving"], reader);
    answers["/gone"] = () => Promise.reject(new Problem("not-found", "It is gone."));
    const { promise, resolve } = Promise.withResolvers<object>();
    answers["/hangs"] = () => promise;
    for (let n = 0; n < 15; n++) await second();
    const last = (path: string) => reader.answers.findLast((each) => each.path === path)!;
    assert.equal(last("/gone").status, 404);
    assert.equal(last("/gone").content.detail, "It is gone.");
    assert.equal(last("/hangs").status, 503);
    assert.ok(last("/moving").content.n! >= 14);
    answers["/gone"] = async () => ({ n: 1 });
    resolve({ n: 99 });
    for (let n = 0; n < 3; n++) await second();
    assert.equal(last("/gone").status, 200);
    assert.equal(last("/hangs").content.n, 99);
  });

  it("closes streams whose token is gone", async (t) => {
    const { open, second } = hubOf(t);
    const reader = new Reader();
    let stands = true;
    await open("a", ["/log"], reader, () => stands);
    await second();
    stands = false;
    const before = reader.chunks.length;
    await second();
    assert.ok(reader.ended);
    assert.equal(reader.chunks.length, before);
  });

  it("allows four streams per client and a hundred in total, and looks at nothing without streams", async (t) => {
    assert.deepEqual([STREAMS_PER_CLIENT_MAX, STREAMS_MAX], [4, 100]);
    const { hub, state, looks, open, second } = hubOf(t);
    const closes: (() => void)[] = [];
    for (let stream = 0; stream < STREAMS_PER_CLIENT_MAX; stream++) {
      assert.ok(hub.hasRoom("a"));
      closes.push(await open("a", ["/log", `/${stream}`], new Reader()));
    }
    assert.ok(!hub.hasRoom("a"));
    for (let client = closes.length; client < STREAMS_MAX; client++) {
      assert.ok(hub.hasRoom(`${client}`));
      closes.push(await open(`${client}`, ["/log"], new Reader()));
    }
    assert.ok(!hub.hasRoom("another"));
    assert.equal(state.streams, STREAMS_MAX);
    for (const close of closes) {
      close();
      close();
    }
    assert.ok(hub.hasRoom("a"));
    assert.equal(state.streams, 0);
    await second();
    const before = { ...looks };
    for (let n = 0; n < 5; n++) await second();
    assert.deepEqual(looks, before);
    // The next stream starts the looks again.
    await open("a", ["/log"], new Reader());
    await second();
    await second();
    assert.ok(looks["/log"]! > before["/log"]! + 1);
  });
});
