// Checks of a simulation at rest, and of its totals.

import assert from "node:assert/strict";
import { Counter } from "../../src/message/topology.ts";
import { checkArenaAtRest } from "../support/in-process/engine-invariants.ts";
import * as command from "./client/command.ts";
import { SimClient } from "./client/sim-client.ts";
import type { SimulationState } from "./simulation-state.ts";

export class RestChecks {
  readonly #simulation: SimulationState;

  constructor(simulation: SimulationState) {
    this.#simulation = simulation;
  }

  /** At rest all shards know the same patterns, and all tubes have what is set for them. */
  #checkSettings(): void {
    const wide = this.#simulation.model.settings.map(({ byPattern }) =>
      [...byPattern.entries()].filter(([pattern]) => pattern.endsWith("*")).sort(),
    );
    for (const each of wide) assert.deepEqual(each, wide[0], "patterns that all shards know");
    for (const { name, shard, resolved } of this.#simulation.model.tubes.values())
      assert.deepEqual(
        resolved,
        this.#simulation.model.settings[shard]!.resolve(name),
        `what is set for ${name}`,
      );
  }

  checkRest(): void {
    this.#checkSettings();
    this.#simulation.model.flows.checkRest();
    this.#checkSchedules();
    for (const { engine } of this.#simulation.server.shards) checkArenaAtRest(engine);
    for (const { id, policy } of this.#simulation.model.jobs.values())
      assert.ok(!policy.leaves, `job ${id}, which has died, has left for its dead-letter tube`);
    for (const client of this.#simulation.clients) client.checkRest(this.#simulation.shards);
  }

  #checkSchedules(): void {
    const { witnesses, server, log } = this.#simulation;
    const wallMs = log?.wallClock.seenMs(server.nowMs) ?? Math.floor(server.nowMs);
    const names = witnesses.flatMap(({ schedules }) => schedules.schedules.map(({ name }) => name));
    assert.equal(new Set(names).size, names.length, `each schedule is on one shard: ${names}`);
    for (const { schedules } of witnesses) schedules.checkRest(wallMs);
  }

  /** All clients have left. */
  checkNobodyCounted(): void {
    const gauges = [Counter.Connections, Counter.Producers, Counter.Workers];
    const counted = gauges.map((each) => this.#simulation.counted(each));
    assert.deepEqual(counted, [0, 0, 0], "connections, producers and workers after all clients have left");
  }

  /** A server that drains says so, and takes no job. */
  checkDrained(): void {
    const socket = this.#simulation.server.connect(0);
    socket.write(Buffer.from("put 0 0 1 1\r\nx\r\n"));
    this.#simulation.server.settle();
    assert.equal(socket.takeReceived().toString("latin1"), "DRAINING\r\n", "a put while the server drains");
    socket.halfClose();
    this.#simulation.server.settle();
  }

  /** The lists and sums of all shards, asked for while nothing happens. */
  checkTotals(): void {
    const socket = this.#simulation.server.connect(0);
    const ask = (text: string): string => {
      socket.takeReceived();
      this.#simulation.counts.sent(text);
      socket.write(Buffer.from(`${text}\r\n`));
      this.#simulation.server.settle();
      return socket.takeReceived().toString("latin1");
    };
    const jobs = [...this.#simulation.model.jobs.values()];
    const count = (state: string): number => jobs.filter((job) => job.state === state).length;
    const rows = new Map(
      ask("stats")
        .split("\n")
        .map((row) => row.split(": ") as [string, string]),
    );
    const waiting = new Set(
      this.#simulation.model.waits
        .filter(({ session, number }) => number === undefined || number === session.openWait)
        .map((wait) => wait.session),
    );
    const open = this.#simulation.clients.filter((client) => !client.socket.isClosed).length;
    const expected: Record<string, number | boolean> = {
      draining: this.#simulation.draining,
      "current-jobs-ready": count("ready"),
      "current-jobs-reserved": count("reserved"),
      "current-jobs-delayed": count("delayed"),
      "current-jobs-buried": count("buried"),
      "total-jobs": this.#simulation.model.totalJobs,
      "job-timeouts": this.#simulation.model.jobTimeouts,
      "current-tubes": this.#simulation.model.tubes.size,
      "current-waiting": waiting.size,
      "current-connections": open + 1,
    };
    for (const [key, value] of Object.entries(expected)) assert.equal(rows.get(key), `${value}`, key);
    this.#simulation.counts.check(rows);
    const tubes = ask("list-tubes").split("---\n")[1];
    const names = [...this.#simulation.model.tubes.keys()].map((name) => `- ${name}\n`).join("");
    assert.equal(tubes, `${names}\r\n`, "list-tubes, in the order of creation");
    socket.halfClose();
    this.#simulation.server.settle();
  }

  deleteAll(): void {
    const client = this.#simulation.server.connect(0);
    const session = this.#simulation.sessionOf(0, client.slot);
    const last = new SimClient(
      "last",
      client,
      { session, acceptor: 0 },
      this.#simulation.model,
      this.#simulation.world,
    );
    this.#simulation.clients.push(last);
    for (const id of [...this.#simulation.model.jobs.keys()]) last.send(command.byId("delete", id));
    this.#simulation.server.settle();
    this.#simulation.check();
    this.checkRest();
    assert.equal(this.#simulation.model.jobs.size, 0, "all jobs can be deleted");
  }
}
