// Observes a simulated server from outside: what its threads do goes into a digest, and its state
// into pictures. It draws no random number, so a run that is watched is the same run.

import { JobState } from "../../../src/engine/jobs/job-table.ts";
import { DATA_OFFSET, HEAD_WORD, TAIL_WORD } from "../../../src/ring/ring.ts";
import type { VirtualDisk } from "../../binlog/virtual-disk.ts";
import type { FakeSocket } from "../../simulation/server/fake-socket.ts";
import type { InProcessServer } from "../../simulation/server/in-process-server.ts";
import type { Digest } from "./digest.ts";
import type { ClientPicture, LogPicture, RingPicture, ShardPicture, Snapshot } from "./snapshot.ts";

/** Characters of a command or a reply that a picture has room for. */
const SHOWN_CHARACTERS = 40;
/** Closed connections stay in the picture while they are among so many. */
const CLIENTS_SHOWN = 7;

interface Client {
  readonly name: number;
  readonly socket: FakeSocket;
  acceptor: number;
  lastCommand: string;
  lastReply: string;
  commands: number;
  replies: number;
}

const lineOf = (bytes: Uint8Array): string => {
  const text = Buffer.from(bytes.slice(0, 4 * SHOWN_CHARACTERS)).toString("latin1");
  const line = text.split("\r\n", 1)[0]!;
  return line.length > SHOWN_CHARACTERS ? `${line.slice(0, SHOWN_CHARACTERS - 1)}…` : line;
};

export class ObservedServer {
  readonly server: InProcessServer;
  readonly #process: number;
  readonly #stepsBefore: number;
  readonly #startedAtMs: number;
  readonly #clients: Client[] = [];

  /** `onStep` is called after each step of a thread. */
  constructor(
    server: InProcessServer,
    { process, stepsBefore, firstClient }: { process: number; stepsBefore: number; firstClient: number },
    digest: Digest,
    onStep: () => void,
  ) {
    this.server = server;
    this.#startedAtMs = server.nowMs;
    this.#process = process;
    this.#stepsBefore = stepsBefore;
    const step = server.step.bind(server);
    server.step = () => {
      const hasStepped = step();
      if (!hasStepped) return false;
      digest.text(server.running?.name ?? "");
      digest.number(server.nowMs);
      onStep();
      return true;
    };
    const connect = server.connect.bind(server);
    server.connect = (acceptor) => {
      const socket = connect(acceptor);
      this.#watchSocket(socket, firstClient + this.#clients.length, digest);
      return socket;
    };
  }

  get clientsMade(): number {
    return this.#clients.length;
  }

  #watchSocket(socket: FakeSocket, name: number, digest: Digest): void {
    const acceptor = this.#acceptorOf(socket);
    const client = { name, socket, acceptor, lastCommand: "", lastReply: "", commands: 0, replies: 0 };
    this.#clients.push(client);
    const write = socket.write.bind(socket);
    socket.write = (bytes) => {
      client.commands++;
      client.lastCommand = lineOf(bytes);
      client.lastReply = "";
      write(bytes);
    };
    const reply = (bytes: Uint8Array): void => {
      digest.number(name);
      digest.bytes(bytes);
      client.replies++;
      client.lastReply = lineOf(bytes);
    };
    const send = socket.send.bind(socket);
    socket.send = (buffer, length) => {
      reply(buffer.subarray(0, length));
      return send(buffer, length);
    };
    const sendWithBodies = socket.sendWithBodies.bind(socket);
    socket.sendWithBodies = (buffer, length, bodies) => {
      const isSent = sendWithBodies(buffer, length, bodies);
      if (isSent) reply(buffer.subarray(0, length));
      return isSent;
    };
  }

  #acceptorOf(socket: FakeSocket): number {
    return this.server.everySocket.findIndex((all) => all.includes(socket));
  }

  picture(): Snapshot {
    const { server } = this;
    const { topology } = server;
    return {
      schedulerSteps: this.#stepsBefore + server.stepsTaken,
      nowMs: server.nowMs - this.#startedAtMs,
      process: this.#process,
      running: server.running?.name ?? "",
      clients: this.#clientPictures(),
      acceptors: topology.acceptors,
      shards: server.shards.map(({ engine }) => shardPicture(engine.jobCounts)),
      requests: topology.requests.slice(0, topology.acceptors).map((rings) => rings.map(ringPicture)),
      responses: topology.responses.slice(0, topology.acceptors).map((rings) => rings.map(ringPicture)),
      records: topology.binlog?.rings.map(ringPicture) ?? [],
      ringBytes: topology.requests[0]![0]!.byteLength - DATA_OFFSET,
      log: server.log === undefined ? undefined : this.#logPicture(server.log.disk as VirtualDisk),
      isHalted: server.halted,
    };
  }

  #clientPictures(): ClientPicture[] {
    const open = this.#clients.filter(({ socket }) => !isOver(socket));
    const closed = this.#clients.filter(({ socket }) => isOver(socket));
    const room = Math.max(0, CLIENTS_SHOWN - open.length);
    const shown = new Set([...open, ...closed.slice(closed.length - room)]);
    return this.#clients
      .filter((client) => shown.has(client))
      .map(({ name, socket, acceptor, lastCommand, lastReply, commands, replies }) => {
        const now = this.#acceptorOf(socket);
        const isClosed = isOver(socket);
        return {
          ...{ name, acceptor: now < 0 ? acceptor : now, isClosed },
          ...{ lastCommand, lastReply, commands, replies },
        };
      });
  }

  #logPicture(disk: VirtualDisk): LogPicture {
    const { server } = this;
    const storage = server.storage!;
    const sum = (of: (shard: number) => number): number =>
      server.shards.reduce((all, _, shard) => all + of(shard), 0);
    return {
      made: sum((shard) => server.records[shard]!.lastNumber),
      written: sum((shard) => storage.tail.written[shard]!),
      synced: sum((shard) => storage.tail.synced[shard]!),
      state: logState(server),
      files: disk.files(),
    };
  }
}

const isOver = (socket: FakeSocket): boolean => socket.vanished || socket.isClosed;

function logState(server: InProcessServer): LogPicture["state"] {
  if (server.logEnd !== undefined) return server.logEnd;
  if (server.storage!.room.waiting) return "waits for room";
  return server.isFull ? "is full" : "serves";
}

function shardPicture(counts: Int32Array): ShardPicture {
  return {
    ready: counts[JobState.Ready]!,
    reserved: counts[JobState.Reserved]!,
    delayed: counts[JobState.Delayed]!,
    buried: counts[JobState.Buried]!,
    moving: counts[JobState.Moving]!,
  };
}

function ringPicture(ring: SharedArrayBuffer): RingPicture {
  const words = new Int32Array(ring, 0, HEAD_WORD + 1);
  return { tail: words[TAIL_WORD]!, head: words[HEAD_WORD]! };
}
