// Tests of event streams: a client that does not read is sent nothing, one without permission is
// disconnected, and streams are limited.

import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import {
  EventHub,
  type Sink,
  STREAMS_MAX,
  STREAMS_PER_CLIENT_MAX,
  VIEW_BYTES_MAX,
} from "../../../../../src/http/api/dashboard/event-hub.ts";
import type { Service } from "../../../../../src/http/queue/service.ts";

class Reader implements Sink {
  readonly frames: string[] = [];
  writableNeedDrain = false;
  ended = false;

  write(chunk: string): boolean {
    this.frames.push(chunk);
    return true;
  }

  end(): void {
    this.ended = true;
  }
}

/** A hub whose view is a number that rises, and a text. */
class CountingHub extends EventHub {
  made = 0;
  text = "";

  override view(): Promise<object> {
    return Promise.resolve({ n: ++this.made, text: this.text });
  }
}

interface Scene {
  readonly hub: CountingHub;
  /** Values of the metrics. */
  readonly state: { streams: number };
  second(): Promise<void>;
}

function hubOf(t: TestContext): Scene {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let nowMs = 0;
  const state = { streams: 0 };
  const hub = new CountingHub({ nowMs: () => nowMs, state } as unknown as Service);
  const second = async (): Promise<void> => {
    nowMs += 1000;
    t.mock.timers.tick(1000);
    for (let turn = 0; turn < 10; turn++) await Promise.resolve();
  };
  t.after(() => hub.stop());
  return { hub, state, second };
}

describe("EventHub", () => {
  it("makes a view once for all streams, and queues nothing for a slow reader", async (t) => {
    const { hub, second } = hubOf(t);
    const [reads, stops] = [new Reader(), new Reader()];
    hub.open("a", "log", {}, reads);
    hub.open("b", "log", {}, stops);
    await second();
    stops.writableNeedDrain = true;
    const before = stops.frames.length;
    for (let n = 0; n < 50; n++) await second();
    assert.equal(stops.frames.length, before);
    assert.ok(reads.frames.length >= 50);
    assert.ok(hub.made <= 60, `${hub.made} views for two streams`);
    stops.writableNeedDrain = false;
    await second();
    assert.equal(stops.frames.length, before + 1);
    assert.equal(stops.frames.at(-1), reads.frames.at(-1));
  });

  it("says that it sends no view above the limit, which is in bytes", async (t) => {
    const { hub, second } = hubOf(t);
    const reader = new Reader();
    hub.open("a", "log", {}, reader);
    await second();
    const before = reader.frames.length;
    hub.text = "ä".repeat(VIEW_BYTES_MAX / 2);
    await second();
    assert.equal(reader.frames.length, before + 1);
    assert.match(
      reader.frames.at(-1)!,
      /^event: unsent\n.*\ndata: .* more to show than the 64 KiB that the server sends/,
    );
    const late = new Reader();
    hub.open("b", "log", {}, late);
    assert.deepEqual(late.frames, [reader.frames.at(-1)], "a new stream hears it at once");
    hub.text = "ä".repeat(VIEW_BYTES_MAX / 2 - 50);
    await second();
    assert.match(reader.frames.at(-1)!, /^event: view\n/);
  });

  it("closes streams whose token is gone", async (t) => {
    const { hub, second } = hubOf(t);
    const reader = new Reader();
    let stands = true;
    hub.open("a", "log", {}, reader, () => stands);
    await second();
    stands = false;
    const before = reader.frames.length;
    await second();
    assert.ok(reader.ended);
    assert.equal(reader.frames.length, before);
  });

  it("allows four streams per client and a hundred in total, and makes nothing without streams", async (t) => {
    assert.deepEqual([STREAMS_PER_CLIENT_MAX, STREAMS_MAX], [4, 100]);
    const { hub, state, second } = hubOf(t);
    const closes: (() => void)[] = [];
    for (let stream = 0; stream < STREAMS_PER_CLIENT_MAX; stream++) {
      assert.ok(hub.hasRoom("a"));
      closes.push(hub.open("a", "log", { stream: `${stream}` }, new Reader()));
    }
    assert.ok(!hub.hasRoom("a"));
    for (let client = closes.length; client < STREAMS_MAX; client++) {
      assert.ok(hub.hasRoom(`${client}`));
      closes.push(hub.open(`${client}`, "log", {}, new Reader()));
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
    const { made } = hub;
    for (let n = 0; n < 5; n++) await second();
    assert.equal(hub.made, made);
  });
});
