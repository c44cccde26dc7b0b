// Tests of HTTP requests that are interrupted at any step: the client leaves, its token is revoked,
// a limit is reached, the server stops. Everything taken is then released: each leased job has a
// lease that its client received, and nothing waits.

import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, type Socket } from "node:net";
import { after, before, describe, it } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { AcceptorCore } from "../../../../src/acceptor/connection/acceptor-core.ts";
import { hashOf } from "../../../../src/access/secrets.ts";
import { parseTokenFile } from "../../../../src/access/token-file.ts";
import { JobState, NO_SLOT, rowOf } from "../../../../src/engine/jobs/job-table.ts";
import type { Api } from "../../../../src/http/api/api.ts";
import { createApp } from "../../../../src/http/app/app.ts";
import { Authentication } from "../../../../src/http/app/authentication.ts";
import { wasSent } from "../../../../src/http/app/unread-answers.ts";
import { browseRoutes } from "../../../../src/http/jobs/browse-routes.ts";
import { jobRoutes } from "../../../../src/http/jobs/job-routes.ts";
import { putRoutes } from "../../../../src/http/jobs/put-routes.ts";
import { reserveRoutes } from "../../../../src/http/jobs/reserve-routes.ts";
import { RequestMeter } from "../../../../src/http/limits/request-meter.ts";
import { Busy, ControlClient } from "../../../../src/http/link/control-client.ts";
import { PutPool } from "../../../../src/http/link/put-pool.ts";
import { Bodies, WireClients } from "../../../../src/http/link/wire-connection.ts";
import { GiveBacks } from "../../../../src/http/queue/lease-changes.ts";
import { Reservations } from "../../../../src/http/queue/reservations.ts";
import { AuditLog, type Service } from "../../../../src/http/queue/service.ts";
import { IdempotencyKeys } from "../../../../src/http/state/idempotency.ts";
import { LeaseTable } from "../../../../src/http/state/lease-table.ts";
import { TubeCache } from "../../../../src/http/state/tube-cache.ts";
import { memoryWords } from "../../../../src/message/topology.ts";
import { ControlWords } from "../../../../src/ring/shared-words.ts";
import { type HandDrivenClient, HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";
import { skipVariant } from "../../../support/whole.ts";

const SECRET = "rb1_once-good";
const TOKENS = parseTokenFile(`root admin sha256:${hashOf(SECRET)}`).tokens;
const SHARDS = 3;
const TUBES = ["a", "b", "c", "d"];
const STEPS_MAX = 10;
const QUIET_STEPS = 12;
const ROUNDS_MAX = 5000;
/** More than there may be under way. */
const QUESTIONS = 1100;
/** All bytes of jobs that may be under way. */
const PUT_BYTES_MAX = 128 * 1024 * 1024;

const request = (method: string, path: string, type: string, body: string): string =>
  [
    `${method} ${path} HTTP/1.1`,
    "Host: localhost",
    `Authorization: Bearer ${SECRET}`,
    ...(body === "" ? [] : [`Content-Type: ${type}`, `Content-Length: ${body.length}`]),
    "Connection: close",
    "",
    body,
  ].join("\r\n");
const json = (path: string, body: object): string =>
  request("POST", path, "application/json", JSON.stringify(body));
const put = (tube: string, bytes: number): string =>
  `put-in-tube ${tube} 0 0 3600 ${bytes}\r\n${"x".repeat(bytes)}\r\n`;
const putInAll = (bytes: number, each: number): string =>
  TUBES.map((tube) => put(tube, bytes).repeat(each)).join("");

interface Operation {
  /** Jobs that are there before. */
  readonly jobs: string;
  /** Put of another client at the last step before the fault. */
  readonly later?: string;
  readonly said: (ids: readonly number[]) => string;
}

const OPERATIONS: Readonly<Record<string, Operation>> = {
  "a reserve of many jobs": {
    jobs: putInAll(10, 20),
    said: () => json("/v1/reserve", { tubes: TUBES, max: 50, wait: 0 }),
  },
  "a wait that is given many jobs": {
    ...{ jobs: "", later: putInAll(10, 20) },
    said: () => json("/v1/reserve", { tubes: TUBES, max: 50, wait: 60 }),
  },
  "a reserve of long jobs": {
    jobs: putInAll(60_000, 2),
    said: () => json("/v1/reserve", { tubes: TUBES, max: 8, wait: 0 }),
  },
  "a reserve of one job": {
    jobs: put("a", 3),
    said: ([id]) => json(`/v1/jobs/${id}/reserve`, {}),
  },
  "a long body": {
    jobs: put("b", 200_000),
    said: ([id]) => request("GET", `/v1/jobs/${id}/body`, "", ""),
  },
  "a put of a long body": {
    jobs: "",
    said: () => request("POST", "/v1/tubes/c/jobs", "text/plain", "x".repeat(200_000)),
  },
  "a put of many jobs": {
    jobs: "",
    said: () => json("/v1/tubes/c/jobs", { jobs: Array.from({ length: 200 }, () => ({ body: "y" })) }),
  },
};

type Fault = (scene: Scene, socket: Socket) => void;

const FAULTS: Readonly<Record<string, Fault>> = {
  "its client leaves": (_scene, socket) => void socket.destroy(),
  "its client is cut off": (_scene, socket) => void socket.resetAndDestroy(),
  "its token is taken away": ({ authentication }) => authentication.configure([]),
  "too many questions are under way": ({ control }) => {
    for (let question = 0; question < QUESTIONS; question++)
      control.ask(question % SHARDS, "totals", undefined).catch(() => {});
  },
  "its client leaves while too many questions are under way": (scene, socket) => {
    FAULTS["too many questions are under way"]!(scene, socket);
    socket.destroy();
  },
  "all slots are taken": ({ core }) => {
    core.connect = () => undefined;
  },
  "its answer can't be sent": (scene) => {
    scene.failsToSend = true;
  },
  "the server stops": ({ service }) => service.reservations.stop(),
};

/**
 * A server whose shards are turned by hand, with the real application in front of it on a real
 * socket.
 */
class Scene {
  readonly server = new HandDrivenServer(SHARDS, undefined, { http: true, ringBytes: 1 << 17 });
  readonly core: AcceptorCore = this.server.http!;
  readonly #connect = this.core.connect;
  readonly control = new ControlClient(this.core, () => {});
  readonly meter = new RequestMeter();
  readonly authentication = new Authentication(
    TOKENS,
    () => {},
    () => [],
  );
  readonly service: Service & { reservations: Reservations };
  readonly api: Api;
  readonly other: HandDrivenClient = this.server.connect(true);
  failsToSend = false;
  /** The last answer that the kernel has taken whole. */
  sent = "";

  constructor() {
    const { control, core } = this;
    const { topology } = this.server;
    const wire = new WireClients(core, () => {});
    const leases = new LeaseTable(() => 1000);
    const facts = { version: "0", instanceId: "0123456789abcdef" };
    const state = { phase: "serving", replayed: 1, streams: 0, wrongTokens: 0 };
    const service: Partial<Service> = {
      ...{ topology, core, control, wire, leases },
      facts: facts as Service["facts"],
      state: state as Service["state"],
      giveBacks: new GiveBacks(leases, control),
      tubes: new TubeCache(control, () => 1000),
      bodies: new Bodies(wire, control, core.places),
      puts: new PutPool(wire, SHARDS),
      keys: new IdempotencyKeys(() => 1000),
      words: new ControlWords(topology.control),
      memory: memoryWords(topology),
      audit: new AuditLog(),
      nowMs: () => 1000,
      wallMs: () => 1000,
    };
    this.service = { ...(service as Service), reservations: new Reservations(wire) };
    this.api = createApp({
      ...{ service: this.service, hosts: new Set<string>(), meter: this.meter },
      authentication: this.authentication,
      routes: [
        (api) =>
          api.addHook("onSend", (_request, reply, payload, done) => {
            reply.raw.on("close", () => {
              if (wasSent(reply)) this.sent = String(payload);
            });
            if (!this.failsToSend) return done(null, payload);
            this.failsToSend = false;
            done(new Busy("no room for the answer"));
          }),
        reserveRoutes,
        jobRoutes,
        browseRoutes,
        putRoutes,
      ],
      onError: (message) => {
        this.errors.push(message);
      },
      onChange: () => {},
    });
  }

  readonly errors: string[] = [];

  /** One turn of all threads, and a round of the event loop. */
  async step(): Promise<void> {
    this.server.turn();
    await nextTurn();
  }

  /** Steps until it is so. */
  async until(what: string, is: () => boolean): Promise<void> {
    for (let round = 0; !is(); round++) {
      assert.ok(round < ROUNDS_MAX, `${what} in the end`);
      await this.step();
    }
  }

  say(text: string): string {
    this.other.say(text);
    this.server.settle();
    return this.other.take();
  }

  /** Steps until nothing moves any more, and no question is under way. */
  async rest(): Promise<void> {
    for (let round = 0, quiet = 0; quiet < QUIET_STEPS; round++) {
      assert.ok(round < ROUNDS_MAX, "the server comes to rest");
      const moves = this.server.turn();
      await nextTurn();
      quiet = moves || this.control.underWay > 0 ? 0 : quiet + 1;
    }
  }

  /** Limits are as before, and their waiters are done. */
  async mend(): Promise<void> {
    this.core.connect = this.#connect;
    this.failsToSend = false;
    this.authentication.configure(TOKENS);
    await this.until("requests are over", () => this.meter.underWay === 0);
    await this.rest();
    this.service.reservations.stop();
    this.service.reservations = new Reservations(this.service.wire);
  }

  /** Ids of leased jobs, as the shards know it. */
  leased(ids: readonly number[]): number[] {
    return this.server.shards.flatMap(({ engine, leaseSession }) =>
      ids.filter((id) => {
        const slot = engine.find(id);
        if (slot === NO_SLOT) return false;
        const page = engine.jobs.pageOf(slot);
        const isReserved = page.state[rowOf(slot)] === JobState.Reserved;
        return isReserved && page.holder[rowOf(slot)] === leaseSession;
      }),
    );
  }

  /**
   * Waits, questions, rooms: nothing is taken. Returns how many connections to the shards are open.
   */
  expectNothingTaken(): number {
    const { reservations, puts } = this.service;
    assert.equal(this.meter.underWay, 0, "no request is under way");
    assert.equal(reservations.waits, 0, "no request waits");
    assert.equal(this.control.underWay, 0, "every question is answered");
    // It would be refused beside a single byte.
    puts.hold(PUT_BYTES_MAX);
    puts.give(PUT_BYTES_MAX);
    for (const { engine } of this.server.shards)
      assert.equal(engine.waitingAlone, 0, "no shard knows a wait");
    assert.deepEqual(this.errors, [], "no error is the server's");
    return this.core.open;
  }
}

/** Number of connections kept for puts and other commands. */
const KEPT_CONNECTIONS_MAX = 1 + 8 * SHARDS;

describe("a request over HTTP", () => {
  let scene: Scene;
  let port: number;

  before(async () => {
    scene = new Scene();
    await scene.api.listen({ port: 0, host: "127.0.0.1" });
    ({ port } = scene.api.server.address() as AddressInfo);
  });
  after(() => scene.api.close());

  /** Plays it with the fault at a step; returns false if it was over before. */
  async function play({ jobs, later = "", said }: Operation, fault: Fault, at: number): Promise<boolean> {
    const ids = [...scene.say(jobs).matchAll(/INSERTED (\d+)/g)].map(([, id]) => Number(id));
    const socket = connect(port, "127.0.0.1");
    socket.on("error", () => {});
    socket.resume();
    const closed = once(socket, "close");
    let isClosed = false;
    void closed.then(() => {
      isClosed = true;
    });
    socket.write(said(ids));
    await scene.until("the request comes", () => scene.meter.underWay > 0 || isClosed);
    for (let step = 0; step < at; step++) await scene.step();
    if (later !== "") scene.other.say(later);
    const wasOver = isClosed;
    fault(scene, socket);
    // Enough for all that goes on; a wait that nothing has ended waits on.
    for (let step = 0; step < QUIET_STEPS; step++) await scene.step();
    if (!isClosed && later === "") await scene.until("the answer comes", () => isClosed);
    socket.destroy();
    await scene.mend();
    for (const [, id] of scene.other.take().matchAll(/INSERTED (\d+)/g)) ids.push(Number(id));
    const got = new Set([...scene.sent.matchAll(/"id":(\d+)/g)].map(([, id]) => Number(id)));
    const leased = scene.leased(ids);
    for (const id of leased) assert.ok(got.has(id), `job ${id} is leased, and in no answer that was sent`);
    assert.deepEqual(
      scene.service.leases
        .list()
        .map(({ id }) => id)
        .sort(),
      [...leased].sort(),
      "the list of leases is what the shards say",
    );
    const open = scene.expectNothingTaken();
    assert.ok(open <= KEPT_CONNECTIONS_MAX, `${open} connections to the shards`);
    await clear();
    for (const { engine } of scene.server.shards)
      assert.equal(engine.bodies.usedBytes, 0, "no body stays, and none is pinned");
    return !wasOver;
  }

  /** The next one begins with nothing. */
  async function clear(): Promise<void> {
    await scene.mend();
    scene.sent = "";
    scene.service.giveBacks.add(scene.service.leases.list());
    await scene.until("all leases are given back", () => scene.service.leases.size === 0);
    for (const tube of TUBES) scene.say(`clear-tube ${tube}\r\n`);
  }

  for (const [row, [what, operation]] of Object.entries(OPERATIONS).entries())
    for (const [column, [how, fault]] of Object.entries(FAULTS).entries())
      it(`gives everything back: ${what}, and ${how}`, { skip: skipVariant(row + column, 2) }, async () => {
        let reached = 0;
        for (let at = 0; at < STEPS_MAX; at++) {
          try {
            if (!(await play(operation, fault, at))) break;
            reached++;
          } catch (error) {
            await clear();
            throw new Error(`at step ${at}`, { cause: error });
          }
        }
        assert.ok(reached > 0, "the fault comes while the request is under way");
      });
});
