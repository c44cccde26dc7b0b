// Tests of the shared memory's layout: each slot has one name, no range of slots runs into another,
// and each role has counters and a doorbell of its own.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { COMMAND_TIMES, END_REASONS } from "../../../src/message/acceptor-counts.ts";
import { GROUP_FIGURES, GroupFigure } from "../../../src/message/group.ts";
import { LOG_FIGURES } from "../../../src/message/log-figures.ts";
import { RequestFlag, RequestOp } from "../../../src/message/request.ts";
import { ResponseFlag, ResponseKind } from "../../../src/message/response.ts";
import * as topologies from "../../../src/message/topology.ts";
import { TransferFlag, TransferMessage } from "../../../src/message/transfer.ts";
import { Op } from "../../../src/protocol/commands.ts";
import { DOORBELL_WORDS } from "../../../src/ring/doorbell.ts";
import { LogWord } from "../../../src/ring/shared-words.ts";
import { TUBE_FIELDS, TubeField } from "../../../src/schema/tube.ts";

const { COUNTERS_PER_ROLE, Counter, createTopology } = topologies;

/** The counters that stand for several slots, with their number. */
const RANGES: Readonly<Record<string, number>> = {
  Closed: END_REASONS.length,
  Commands: Math.max(...Object.values(Op)) + 1,
  CommandTimes: COMMAND_TIMES,
  LogFigures: LOG_FIGURES,
};

describe("the counters of a role", () => {
  it("have one name for each slot", () => {
    const names: string[] = [];
    for (const [name, first] of Object.entries(Counter)) {
      for (let slot: number = first; slot < first + (RANGES[name] ?? 1); slot++) {
        assert.equal(names[slot], undefined, `${name} and ${names[slot]} share slot ${slot}`);
        names[slot] = name;
      }
    }
    assert.ok(names.length <= COUNTERS_PER_ROLE, `${names.length} slots`);
  });
});

const numbersOf = (names: Readonly<Record<string, number>>): number[] => Object.values(names);

describe("the numbers of messages", () => {
  it("are different within their kind, and fit into a byte", () => {
    for (const kind of [{ ...Op, ...RequestOp }, ResponseKind, TransferMessage]) {
      const numbers = numbersOf(kind);
      assert.equal(new Set(numbers).size, numbers.length);
      assert.ok(numbers.every((number) => number >= 0 && number <= 255));
    }
  });

  it("are different bits where several may be set", () => {
    for (const flags of [RequestFlag, ResponseFlag, TransferFlag].map(numbersOf)) {
      assert.equal(
        flags.reduce((sum, flag) => sum + flag, 0),
        flags.reduce((all, flag) => all | flag, 0),
      );
      assert.ok(flags.every((flag) => flag > 0 && flag < 2 ** 16 && (flag & (flag - 1)) === 0));
    }
  });

  it("are the columns of a row, one after the other", () => {
    const columns = Array.from({ length: TUBE_FIELDS }, (_, at) => at);
    assert.deepEqual(
      numbersOf(TubeField).sort((a, b) => a - b),
      columns,
    );
    assert.equal(new Set(numbersOf(GroupFigure)).size, numbersOf(GroupFigure).length);
    assert.ok(numbersOf(GroupFigure).every((at) => at < GROUP_FIGURES));
  });
});

describe("the roles and threads of a server", () => {
  const shapes = [
    { shards: 1, acceptors: 1, placement: "together" },
    { shards: 3, acceptors: 2, placement: "together", threads: 2 },
    { shards: 3, acceptors: 4, placement: "together", threads: 3 },
    { shards: 2, acceptors: 3, placement: "apart" },
  ] as const;
  for (const shape of shapes) {
    for (const http of [false, true]) {
      const name = `${JSON.stringify(shape)}${http ? " with HTTP" : ""}`;
      const topology = createTopology({ ...shape, http, jobBytesMax: 65_535, ringBytes: 4096 });
      const shards = Array.from({ length: shape.shards }, (_, shard) => shard);
      const acceptors = Array.from({ length: shape.acceptors }, (_, acceptor) => acceptor);

      it(`have counters of their own: ${name}`, () => {
        const { acceptorRole, binlogRole, countersOf, httpRole, portRole, rolesOf, shardRole } = topologies;
        const roles = [
          ...shards.map(shardRole),
          ...acceptors.map((acceptor) => acceptorRole(topology, acceptor)),
          binlogRole(topology),
        ];
        assert.deepEqual(
          roles,
          roles.map((_, role) => role),
        );
        assert.equal(rolesOf(topology), roles.length);
        const all = http ? [...roles, httpRole(topology)] : roles;
        assert.equal(new Set(all).size, all.length);
        for (const role of all) countersOf(topology, role).fill(role + 1);
        for (const role of all) assert.deepEqual(new Set(countersOf(topology, role)), new Set([role + 1]));
        assert.equal(topology.counters.byteLength, all.length * COUNTERS_PER_ROLE * 8);
        for (let port = 0; port < topology.ports; port++)
          assert.equal(
            portRole(topology, port),
            port < shape.acceptors ? roles[shape.shards + port] : all.at(-1),
          );
      });

      it(`have doorbells, rings and claims of their own: ${name}`, () => {
        const { binlogBell, groupBell, httpBell, portBell, threadOfAcceptor, threadOfShard } = topologies;
        const { threads, ports, requests, responses, claims, workerNames, doorbells } = topology;
        const bells = [...threads.keys(), binlogBell(topology), httpBell(topology), groupBell(topology)];
        assert.equal(new Set(bells).size, threads.length + 3);
        assert.equal(doorbells.byteLength, bells.length * DOORBELL_WORDS * 4);
        for (const shard of shards)
          assert.ok(threads[threadOfShard(topology, shard)]!.shards.includes(shard));
        for (const acceptor of acceptors) {
          const thread = threadOfAcceptor(topology, acceptor);
          assert.ok(threads[thread]!.acceptors.includes(acceptor));
          assert.equal(portBell(topology, acceptor), thread);
        }
        assert.equal(ports, shape.acceptors + (http ? 1 : 0));
        if (http) assert.equal(portBell(topology, ports - 1), httpBell(topology));
        const rings = [...requests.flat(), ...responses.flat()];
        assert.equal(new Set(rings).size, 2 * ports * shape.shards);
        assert.equal(new Set([...claims, ...workerNames]).size, 2 * ports);
        assert.deepEqual(
          [
            threads.flatMap((thread) => thread.shards).sort(),
            threads.flatMap((each) => each.acceptors).sort(),
          ],
          [shards, acceptors],
        );
      });
    }
  }

  it("have rings for connections that move only between threads of which one has shards", () => {
    const ringsOf = (shape: object): boolean[][] =>
      createTopology({
        ...{ shards: 2, acceptors: 3, jobBytesMax: 1, ringBytes: 4096, migration: true },
        ...shape,
      }).migrationRings.map((row) => row.map((ring) => ring !== undefined));
    assert.deepEqual(ringsOf({ placement: "together", threads: 2 }), [
      [false, true, false],
      [true, false, true],
      [false, true, false],
    ]);
    assert.deepEqual(ringsOf({ placement: "together", threads: 2, migration: false }), []);
    assert.deepEqual(ringsOf({ placement: "together", threads: 1 }), []);
    assert.deepEqual(ringsOf({ placement: "apart" }), []);
  });

  it("share with the log what a log and a group need", () => {
    const make = (binlog?: topologies.TopologyOptions["binlog"]): topologies.Topology =>
      createTopology({
        ...{ shards: 2, acceptors: 1, placement: "together", threads: 1, jobBytesMax: 1, ringBytes: 4096 },
        ...(binlog === undefined ? {} : { binlog }),
      });
    assert.equal(make().binlog, undefined);
    const log = { repliesWaitFor: LogWord.Synced, segmentBytes: 10 << 20 };
    const apart = make(log);
    assert.deepEqual([apart.binlog!.repliesWaitFor, apart.binlog!.thread], [LogWord.Synced, undefined]);
    assert.equal(new Set(apart.binlog!.rings).size, 2);
    assert.equal(topologies.binlogBell(apart), 1);
    const resident = make({ ...log, isResident: true });
    assert.deepEqual([resident.binlog!.thread, topologies.binlogBell(resident)], [0, 0]);
    assert.throws(() => topologies.binlogGroup(resident), /in no group/);
    for (const repliesWait of [true, false]) {
      const group = topologies.binlogGroup(make({ ...log, group: { repliesWait } }));
      assert.equal(group.repliesWait, repliesWait);
      assert.equal(group.figures.byteLength, GROUP_FIGURES * 8);
    }
  });

  it("have words of control on cache lines of their own", () => {
    const words = numbersOf(topologies.ControlWord);
    assert.equal(new Set(words).size, words.length);
    assert.ok(words.every((word) => word % 16 === 0));
    const { control } = createTopology({ shards: 1, acceptors: 1, jobBytesMax: 1, ringBytes: 4096 });
    assert.equal(control.byteLength, 4 * (Math.max(...words) + 16));
  });
});
