// Tests that no limit refuses a give-back: one question per shard is in progress, however many jobs
// go back; and that only the shard itself answers pings, which detect a hung shard.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { JobState } from "../../../../src/engine/jobs/job-table.ts";
import { ControlClient, Liveness, SILENT_MS_MAX } from "../../../../src/http/link/control-client.ts";
import { Bodies, WireClients } from "../../../../src/http/link/wire-connection.ts";
import { GiveBacks } from "../../../../src/http/queue/lease-changes.ts";
import { Handout, Reservations } from "../../../../src/http/queue/reservations.ts";
import { LeaseTable } from "../../../../src/http/state/lease-table.ts";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";

const JOBS = 2000;
/** The limit of questions in flight. */
const QUESTIONS = 1000;

function scene() {
  const server = new HandDrivenServer(1, undefined, { http: true });
  const control = new ControlClient(server.http!, () => {});
  const leases = new LeaseTable(() => 1000);
  const giveBacks = new GiveBacks(leases, control);
  const wire = new WireClients(server.http!, () => {});
  const client = server.connect(true);
  const say = (text: string): string => {
    client.say(text);
    server.settle();
    return client.take();
  };
  const settle = async (): Promise<void> => {
    for (let round = 0; round < 200; round++) {
      server.settle();
      await nextTurn();
    }
  };
  /** Questions that the shard does not get to: no turn is taken. */
  const askMuch = (): void => {
    for (let question = 0; question < QUESTIONS + 1; question++)
      control.ask(0, "totals", undefined).catch(() => {});
  };
  return { server, control, leases, giveBacks, wire, say, settle, askMuch };
}

describe("jobs of a client that has left", () => {
  it("all go back while the limit of questions is in flight", async () => {
    const { server, control, leases, giveBacks, wire, say, settle, askMuch } = scene();
    say("put 0 0 3600 1\r\nx\r\n".repeat(JOBS));
    const ways = { leases, giveBacks, control, nowMs: () => 1000 };
    const handout = new Handout(ways, { owner: "", address: "" });
    const reserving = new Reservations(wire).reserve({
      ...{
        worker: handout.worker,
        tubes: ["default"],
        waitSeconds: 0,
        max: JOBS,
        bytesMax: 1e6,
        room: () => JOBS,
      },
      signal: handout.signal,
      onJob: (job) => handout.add(job),
    });
    await settle();
    await reserving;
    assert.equal(leases.size, JOBS);
    askMuch();
    const { underWay } = control;
    handout.drop();
    assert.equal(control.underWay, underWay + 1, "one question for all");
    assert.equal(leases.size, JOBS, "leases count until the shard has answered");
    await settle();
    assert.deepEqual([leases.size, leases.abandoned, control.underWay], [0, JOBS, 0]);
    assert.match(say("stats-tube default\r\n"), new RegExp(`current-jobs-ready: ${JOBS}\n`));
    assert.equal(server.shards[0]!.engine.jobCounts[JobState.Reserved], 0);
  });
});

describe("a hanging shard", () => {
  it("is noticed while the limit of questions is in flight", async () => {
    const { control, askMuch, settle } = scene();
    let nowMs = 0;
    const liveness = new Liveness(control, () => nowMs);
    askMuch();
    liveness.ping();
    await nextTurn();
    nowMs = SILENT_MS_MAX + 1;
    liveness.ping();
    assert.deepEqual(liveness.silent, [0]);
    await settle();
    assert.deepEqual(liveness.silent, [], "it has answered");
  });
});

describe("a body without a slot", () => {
  it("takes no room from later ones", async () => {
    const { server, control, wire, say, settle } = scene();
    const bytes = 1_000_000;
    say(`put 0 0 60 ${bytes}\r\n${"x".repeat(bytes)}\r\n`);
    const bodies = new Bodies(wire, control, server.http!.places);
    const core = server.http!;
    const { connect } = core;
    core.connect = () => undefined;
    // More than all that may be under way.
    const refused = Array.from({ length: 140 }, () => bodies.read(1).catch((error: Error) => error));
    await settle();
    for (const error of await Promise.all(refused)) assert.ok(error instanceof Error);
    core.connect = connect;
    const two = [bodies.read(1), bodies.read(1)];
    for (const body of two) body.catch(() => {});
    await settle();
    for (const body of await Promise.all(two)) assert.equal(body?.length, bytes);
  });
});
