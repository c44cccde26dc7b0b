// Tests of the cache of names.

import assert from "node:assert/strict";
import { describe, it, test } from "node:test";
import { REPLACING_BODY_BYTES_MAX } from "../../../../src/engine/job-changes.ts";
import type { BodyArena } from "../../../../src/engine/jobs/body-arena.ts";
import { ControlWord } from "../../../../src/message/topology.ts";
import { Span } from "../../../../src/protocol/request.ts";
import { ControlWords } from "../../../../src/ring/shared-words.ts";
import { NameCache } from "../../../../src/shard/commands/put.ts";
import { checkArenaAtRest } from "../../../support/in-process/engine-invariants.ts";
import { snapshotOf } from "../../../support/in-process/engine-snapshot.ts";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";
import { tubeOn } from "../../../support/tube-on.ts";

test("a name is its bytes, however many names came before", () => {
  const random = new SeededRandom(11);
  const names = new NameCache();
  const span = new Span();
  for (let i = 0; i < 5000; i++) {
    // Few letters and lengths, so that many have the same place, length or end.
    const text = Array.from({ length: random.below(5) }, () => random.pick(["a", "b", "é"])!).join("");
    const bytes = Buffer.from(`#${text}#`, "latin1");
    span.set(bytes, 1, bytes.length - 1);
    assert.equal(names.textOf(span), text);
  }
});

// Tests of puts that are refused, whole or in pieces: neither a body nor anything else is left of
// them, and the next one is accepted.

const SHARDS = 2;
const TUBE = tubeOn(1, SHARDS);
const SIZES = [
  ["small", 100],
  ["a large cell", 20_000],
  ["in pieces", 300_000],
] as const;

function scene() {
  const server = new HandDrivenServer(SHARDS);
  const client = server.connect(true);
  const ask = (line: string, body?: number): string => {
    client.say(body === undefined ? `${line}\r\n` : `${line}\r\n${"x".repeat(body)}\r\n`);
    server.settle();
    for (const { engine } of server.shards) checkArenaAtRest(engine);
    return client.take().trimEnd();
  };
  const put = (bytes: number, options = ""): string =>
    ask(`put-in-tube ${TUBE} 0 0 60 ${bytes}${options}`, bytes);
  const { bodies } = server.shards[1]!.engine;
  /** All but the counts of puts that were refused. */
  const snapshot = (): object[] =>
    server.shards.map(({ engine }) => ({ ...snapshotOf(engine), shard: {}, tubes: engine.tubes.size }));
  return { server, ask, put, bodies, snapshot };
}

type Scene = ReturnType<typeof scene>;

/** Lets no more bodies be written, as if memory were exhausted; returns what undoes it. */
function exhaust(bodies: BodyArena, method: "allocate" | "write"): () => void {
  const before = bodies[method];
  Object.assign(bodies, {
    [method]: () => {
      throw new RangeError("no memory");
    },
  });
  return () => Object.assign(bodies, { [method]: before });
}

const REFUSALS: readonly (readonly [what: string, reply: string, begin: (scene: Scene) => () => void])[] = [
  [
    "at the memory limit",
    "OUT_OF_MEMORY",
    ({ bodies }) => {
      bodies.limit = { allows: false };
      return () => {
        bodies.limit = { allows: true };
      };
    },
  ],
  ["without memory for its body", "OUT_OF_MEMORY", ({ bodies }) => exhaust(bodies, "allocate")],
  ["without memory for its bytes", "OUT_OF_MEMORY", ({ bodies }) => exhaust(bodies, "write")],
  [
    "into a full tube",
    "TUBE_FULL",
    ({ ask }) => {
      assert.equal(ask(`set-tube ${TUBE} max-jobs=1`), "SET");
      return () => assert.equal(ask(`set-tube ${TUBE} max-jobs=9`), "SET");
    },
  ],
  [
    "while the server drains",
    "DRAINING",
    ({ server }) => {
      const words = new ControlWords(server.topology.control);
      words.set(ControlWord.Draining);
      return () => words.words.set([0], ControlWord.Draining);
    },
  ],
];

describe("a put that is refused", () => {
  for (const [what, reply, begin] of REFUSALS)
    for (const [size, bytes] of SIZES)
      it(`${what}, ${size}, leaves nothing`, () => {
        const all = scene();
        const { put, snapshot } = all;
        assert.equal(put(10), "INSERTED 1");
        const end = begin(all);
        const before = snapshot();
        for (let time = 0; time < 2; time++) {
          assert.equal(put(bytes), reply);
          assert.deepEqual(snapshot(), before);
        }
        end();
        assert.match(put(bytes), /^INSERTED \d+$/);
        assert.equal(all.server.shards[1]!.engine.jobs.live, 2);
      });
});

describe("a put whose key is taken", () => {
  for (const [size, bytes] of SIZES)
    for (const [how, reply] of [
      ["", "DUPLICATE 1"],
      [" on-duplicate=keep", "KEPT 1"],
      [" on-duplicate=replace", "TUBE_FULL"],
    ] as const)
      it(`frees its body, ${size},${how} at the limit of the tube's bytes`, () => {
        const { ask, put, snapshot } = scene();
        assert.equal(put(10, " unique=k"), "INSERTED 1");
        assert.equal(ask(`set-tube ${TUBE} max-bytes=10`), "SET");
        const before = snapshot();
        for (let time = 0; time < 2; time++) {
          // A body that replaces another has to fit into one record.
          const isTooBig = reply === "TUBE_FULL" && bytes > REPLACING_BODY_BYTES_MAX;
          assert.equal(put(bytes, ` unique=k${how}`), isTooBig ? "JOB_TOO_BIG" : reply);
          assert.deepEqual(snapshot(), before);
        }
      });
});

describe("a put whose key is taken, and whose body has no room,", () => {
  const withoutRoom = REFUSALS.filter(([, reply]) => reply === "OUT_OF_MEMORY");
  const drained = REFUSALS.find(([, reply]) => reply === "DRAINING")!;
  for (const [what, , begin] of withoutRoom)
    for (const [size, bytes] of SIZES) {
      it(`is told so, ${what}, ${size}`, () => {
        const all = scene();
        assert.equal(all.put(10, " unique=k"), "INSERTED 1");
        begin(all);
        const before = all.snapshot();
        assert.equal(all.put(bytes, " unique=k"), "DUPLICATE 1");
        assert.equal(all.put(bytes, " unique=k on-duplicate=keep"), "KEPT 1");
        assert.equal(all.put(bytes, " unique=l"), "OUT_OF_MEMORY");
        assert.deepEqual(all.snapshot(), before);
      });

      it(`changes nothing while the server drains, ${what}, ${size}`, () => {
        const all = scene();
        assert.equal(all.ask(`put-in-tube ${TUBE} 9 0 60 10 unique=k`, 10), "INSERTED 1");
        begin(all);
        drained[2](all);
        const before = all.snapshot();
        assert.equal(all.put(bytes, " unique=k on-duplicate=escalate"), "DRAINING");
        assert.deepEqual(all.snapshot(), before);
      });
    }
});

describe("a put in pieces whose memory ends", () => {
  for (const pieces of [0, 1, 2, 3])
    it(`after ${pieces} of them gives back what it had`, () => {
      const { put, bodies, snapshot } = scene();
      assert.equal(put(10), "INSERTED 1");
      const before = snapshot();
      const { write } = bodies;
      let written = 0;
      bodies.write = (...piece) => {
        if (written++ === pieces) throw new RangeError("no memory");
        write.apply(bodies, piece);
      };
      assert.equal(put(900_000), "OUT_OF_MEMORY");
      assert.equal(written, pieces + 1, "the rest is dropped");
      assert.deepEqual(snapshot(), before);
      assert.match(put(900_000), /^INSERTED \d+$/);
    });
});
