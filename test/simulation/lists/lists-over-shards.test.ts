// Tests that lists over several shards have each job and each schedule once, although they move
// from shard to shard while a page is gathered.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { listed } from "../../../src/http/jobs/browse-routes.ts";
import { ControlClient } from "../../../src/http/link/control-client.ts";
import { printSeed, seed } from "../../support/seeded-property.ts";
import { SeededRandom } from "../../support/seeded-random.ts";
import { tubeOn } from "../../support/tube-on.ts";
import type { FakeSocket } from "../server/fake-socket.ts";
import { InProcessServer } from "../server/in-process-server.ts";

const SHARDS = 3;
/** Jobs, and schedules. */
const ENTRIES = 4;
const MOVERS = 3;
const RUNS = 30;
/** Lists in a run. */
const LISTS = 10;
const STEPS_MAX = 100_000;
const NUMBERS = Array.from({ length: ENTRIES }, (_, at) => at + 1);
const TUBES = Array.from({ length: SHARDS }, (_, shard) => tubeOn(shard, SHARDS));

/** A server, and clients that send jobs or schedules from shard to shard. */
class Scene {
  readonly random: SeededRandom;
  readonly server: InProcessServer;
  readonly #movers: readonly FakeSocket[];
  /** Those with an unanswered command. */
  readonly #busy = new Set<FakeSocket>();
  readonly #move: () => string;

  constructor(random: SeededRandom, move: (random: SeededRandom) => string) {
    this.random = random;
    this.server = new InProcessServer({
      ...{ shards: SHARDS, acceptors: 2, http: true, random, holdUps: random.pick([0, 0.1, 0.5]) },
      placement: random.pick(["apart", "together"]),
    });
    this.#movers = Array.from({ length: MOVERS }, () => this.server.connect());
    this.#move = () => move(random);
  }

  ask(text: string): string {
    const [client] = this.#movers as [FakeSocket];
    client.write(Buffer.from(text));
    this.server.settle();
    return client.takeReceived().toString();
  }

  /** Takes a step. Each mover sends its next command once the last one is answered. */
  step(): void {
    for (const mover of this.#movers) {
      if (mover.takeReceived().length === 0 && this.#busy.has(mover)) continue;
      this.#busy.add(mover);
      mover.write(Buffer.from(this.#move()));
    }
    assert.ok(this.server.step(), "the server has work while something moves");
  }
}

function overProtocol(scene: Scene, command: string): string {
  const client = scene.server.connect();
  client.write(Buffer.from(`${command}\r\n`));
  let text = "";
  for (let steps = 0; !text.endsWith("\n\r\n"); steps++) {
    assert.ok(steps < STEPS_MAX, "a list is answered, although others move");
    scene.step();
    text += client.takeReceived().toString();
  }
  return text;
}

/** Returns the ids of all jobs, gathered page by page as `GET /v1/jobs` does. */
async function overHttp(scene: Scene, control: ControlClient): Promise<number[]> {
  const { core } = scene.server.http!;
  const service = { core, control, nowMs: () => scene.server.nowMs };
  const shards = [...Array(SHARDS).keys()];
  const ids: number[] = [];
  for (let afterId: number | undefined = 0; afterId !== undefined; ) {
    const place = { tube: undefined, order: "scan" as const, afterId };
    let page: Awaited<ReturnType<typeof listed>> | undefined;
    const asked = { limit: scene.random.pick([5, 100])!, bodyBytesMax: 1000 };
    listed(service, shards, place, asked, { seesTexts: true }).then((result) => (page = result), assert.fail);
    for (let steps = 0; page === undefined; steps++) {
      assert.ok(steps < STEPS_MAX, "a page is answered, although others move");
      scene.step();
      await nextTurn();
    }
    ids.push(...page.jobs.map(({ id }) => id));
    afterId = page.doneId;
  }
  return ids;
}

const moveJob = (random: SeededRandom): string =>
  `update-job ${random.between(1, ENTRIES)} tube=${random.pick(TUBES)}\r\n`;
const setSchedule = (random: SeededRandom, name = `s${random.between(1, ENTRIES)}`): string =>
  `set-schedule ${name} ${random.pick(TUBES)} 0 0 60 1 every=1000\r\nx\r\n`;

function putJobs(scene: Scene): void {
  for (const id of NUMBERS)
    assert.equal(scene.ask(`put-in-tube ${TUBES[id % SHARDS]} 0 0 60 1\r\nx\r\n`), `INSERTED ${id}\r\n`);
}

describe("lists over several shards, while entries move between them", () => {
  it("list-jobs * has each job once", (t) => {
    printSeed(t);
    for (let run = 0; run < RUNS; run++) {
      const scene = new Scene(new SeededRandom(seed + run), moveJob);
      putJobs(scene);
      for (let list = 0; list < LISTS; list++) {
        const text = overProtocol(scene, "list-jobs *");
        const found = [...text.matchAll(/^- \{"id":(\d+),/gm)].map(([, id]) => Number(id));
        assert.deepEqual(found, NUMBERS, `run ${run}`);
      }
    }
  });

  it("list-schedules has each schedule once", (t) => {
    printSeed(t);
    for (let run = 0; run < RUNS; run++) {
      const scene = new Scene(new SeededRandom(seed + run), setSchedule);
      for (const each of NUMBERS) assert.equal(scene.ask(setSchedule(scene.random, `s${each}`)), "SET\r\n");
      for (let list = 0; list < LISTS; list++) {
        const text = overProtocol(scene, "list-schedules");
        const found = [...text.matchAll(/^- \{"name":"s(\d+)"/gm)].map(([, name]) => Number(name));
        assert.deepEqual(
          found.toSorted((a, b) => a - b),
          NUMBERS,
          `run ${run}`,
        );
      }
    }
  });

  it("GET /v1/jobs has each job once", async (t) => {
    printSeed(t);
    for (let run = 0; run < RUNS; run++) {
      const scene = new Scene(new SeededRandom(seed + run), moveJob);
      const { http } = scene.server;
      const control = new ControlClient(http!.core, () => http!.wake());
      putJobs(scene);
      for (let list = 0; list < LISTS; list++)
        assert.deepEqual(await overHttp(scene, control), NUMBERS, `run ${run}`);
    }
  });
});
