// The shared log on NATS JetStream; no other file uses JetStream. The log is a stream of one
// subject on three servers. Republish delivers appended messages to all nodes, and nodes fetch
// missed ones by sequence. The log uses no consumers: none can be created while the servers elect
// their own leader.

import {
  type DirectStreamAPI,
  JetStreamApiError,
  type JetStreamClient,
  type JetStreamManager,
  jetstream,
  jetstreamManager,
  type StreamInfo,
} from "@nats-io/jetstream";
import {
  type Authenticator,
  connect,
  credsAuthenticator,
  type Msg,
  type NatsConnection,
  NoRespondersError,
  TimeoutError,
} from "@nats-io/transport-node";
import { assert } from "../base/assert.ts";
import type { GroupUrl } from "./group-url.ts";
import { type LogEnds, LogError, type LogMessage } from "./shared-log.ts";

// Diagnoses the log servers of a group from the state that the stream's leader reports, for
// `runnerbean replica check`.

interface StreamServers {
  leader: string;
  replicas: number;
  /** The other replicas, as the leader sees them. */
  peers: readonly { name: string; offline: boolean; current: boolean; lag?: number; active?: number }[];
}

/** A peer that answered within this time is up. Nanoseconds. */
const SILENT_NS_MAX = 10e9;
/** Up to this many messages in flight are normal. */
const LAG_MAX = 100;

/** Returns a line per problem, with its remedy. */
export function streamProblems({ leader, replicas, peers }: StreamServers): string[] {
  const problems: string[] = [];
  if (replicas < 3) problems.push(`the stream has ${replicas} replica: if that server dies, the group stops`);
  if (leader === "")
    problems.push(
      "the stream has no leader, so nothing is acknowledged: a majority of its log servers must run, with JetStream on",
    );
  for (const { name, offline, current, lag = 0, active = 0 } of peers) {
    if (offline || active > SILENT_NS_MAX)
      problems.push(
        `log server ${name} does not take part: it is down, or its JetStream is off; nats-server turns that off when its disk is full: make room, then start it again`,
      );
    else if (!current && lag > LAG_MAX) problems.push(`log server ${name} is ${lag} messages behind`);
  }
  const known = peers.length + (leader === "" ? 0 : 1);
  if (leader !== "" && known < replicas)
    problems.push(`the stream is on ${known} of ${replicas} log servers`);
  return problems;
}

/** The answer of a log server's monitoring port at /jsz. */
export interface Jsz {
  disabled?: boolean;
  config?: { sync_always?: boolean };
}

/** Returns a problem, or undefined if the server is fine. */
export function serverProblem({ disabled, config }: Jsz): string | undefined {
  if (disabled === true || config === undefined)
    return "JetStream is off: nats-server turns it off when its disk is full; make room, then start it again";
  if (config.sync_always !== true)
    return 'does not always sync: set "sync_interval: always" in its jetstream block';
  return undefined;
}

const APPEND_MS = 2500;
const REQUEST_MS = 1000;
/**
 * "Not found" within the stream's range means that one replica is damaged. Ask for another, at most
 * this often.
 */
const ASKED_MAX = 20;
const ASKED_AGAIN_MS = 50;
/** Number of messages to fetch concurrently. */
const FETCHED_AHEAD = 16;
/** Maximum number of messages, and of their bytes, in one answer. */
const BATCH_MESSAGES = 512;
const BATCH_BYTES = 2 * 1024 * 1024;
const WRONG_SEQUENCE = 10071;
const FULL = [10077, 10047, 10122];

export interface StreamOptions {
  replicas: number;
  maxBytes: number;
  groupId: string;
  /** The node that has to start the group with its jobs; 0 for any. */
  seed: number;
}

/** Returns a node's answer to a question about itself. */
type Asked = (question: string) => string;

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

function authenticatorOf({ credentials, credentialsText }: GroupUrl): { authenticator?: Authenticator } {
  assert(credentials === "" || credentialsText !== undefined, "the credentials of a group are read");
  if (credentialsText === undefined) return {};
  return { authenticator: credsAuthenticator(Buffer.from(credentialsText)) };
}

export class JetStreamLog {
  readonly #connection: NatsConnection;
  readonly #client: JetStreamClient;
  readonly #manager: JetStreamManager;
  readonly #direct: DirectStreamAPI;
  readonly #group: string;
  /** Whether the server can answer with many messages at once. */
  #hasBatches = true;

  private constructor(connection: NatsConnection, manager: JetStreamManager, group: string) {
    this.#connection = connection;
    this.#client = jetstream(connection, { timeout: APPEND_MS });
    this.#manager = manager;
    this.#direct = manager.direct as DirectStreamAPI;
    this.#group = group;
  }

  /** Connects to any of the servers. If `patient`, retries until one accepts; otherwise rejects. */
  static async connect(url: GroupUrl, name: string, patient: boolean): Promise<JetStreamLog> {
    const connection = await connect({
      servers: url.servers.map((server) => (url.tls ? `tls://${server}` : server)),
      name,
      maxReconnectAttempts: -1,
      reconnectTimeWait: 100,
      reconnectJitter: 50,
      waitOnFirstConnect: patient,
      pingInterval: 1000,
      maxPingOut: 2,
      timeout: 2000,
      // Each request would otherwise create an Error up front to capture its call stack.
      noAsyncTraces: true,
      ...(url.tls ? { tls: {} } : {}),
      ...(url.user === "" ? {} : { user: url.user, pass: url.password }),
      ...authenticatorOf(url),
    });
    const manager = await jetstreamManager(connection, { timeout: REQUEST_MS, checkAPI: false });
    return new JetStreamLog(connection, manager, url.group);
  }

  get #stream(): string {
    return `RUNNERBEAN_${this.#group}`;
  }

  get #subject(): string {
    return `runnerbean.${this.#group}.log`;
  }

  #nodeSubject(node: number): string {
    return `runnerbean.${this.#group}.node.${node.toString(16)}`;
  }

  /** The server of this connection, and its version. */
  get server(): { name: string; version: string; address: string } {
    const { info } = this.#connection;
    return {
      name: info?.server_name ?? "",
      version: info?.version ?? "",
      address: this.#connection.getServer(),
    };
  }

  async close(): Promise<void> {
    await this.#connection.close().catch(() => {});
  }

  /**
   * Calls `listener` whenever the connection breaks: answers to earlier requests are then
   * unreliable.
   */
  onDisconnect(listener: () => void): void {
    void (async () => {
      for await (const { type } of this.#connection.status()) if (type === "disconnect") listener();
    })();
  }

  // --- the stream -----------------------------------------------------------------------------

  /** Creates the stream of the group; only `replica init` does that. */
  async create({ replicas, maxBytes, groupId, seed }: StreamOptions): Promise<void> {
    await this.#manager.streams.add({
      name: this.#stream,
      subjects: [this.#subject],
      num_replicas: replicas,
      storage: "file",
      retention: "limits",
      discard: "new",
      max_bytes: maxBytes,
      deny_delete: true,
      allow_direct: true,
      duplicate_window: 0,
      republish: { src: this.#subject, dest: `runnerbean.${this.#group}.tail` },
      metadata: { runnerbeanGroup: groupId, ...(seed > 0 ? { runnerbeanSeed: `${seed}` } : {}) },
    });
  }

  async remove(): Promise<void> {
    await this.#manager.streams.delete(this.#stream);
  }

  async #info(): Promise<StreamInfo> {
    try {
      return await this.#manager.streams.info(this.#stream);
    } catch (error) {
      throw asLogError(error);
    }
  }

  async identity(): Promise<Pick<StreamOptions, "groupId" | "seed">> {
    const { metadata = {} } = (await this.#info()).config;
    return {
      groupId: metadata["runnerbeanGroup"] ?? "",
      seed: Number(metadata["runnerbeanSeed"] ?? 0),
    };
  }

  async servers(): Promise<StreamServers> {
    const { cluster, config } = await this.#info();
    const { leader = "", replicas: peers = [] } = cluster ?? { leader: this.server.name };
    return { leader, replicas: config.num_replicas, peers };
  }

  // --- the five calls -------------------------------------------------------------------------

  async append(bytes: Uint8Array, expectedLast: number): Promise<number> {
    assert(bytes.length > 0, "an appended message has bytes");
    try {
      const { seq } = await this.#client.publish(this.#subject, bytes, {
        timeout: APPEND_MS,
        retries: 0,
        expect: { lastSequence: expectedLast, streamName: this.#stream },
      });
      return seq;
    } catch (error) {
      throw asLogError(error);
    }
  }

  async ends(): Promise<LogEnds> {
    const { state, config } = await this.#info();
    const limitBytes = Math.max(0, config.max_bytes);
    return { first: state.first_seq, last: state.last_seq, bytes: state.bytes, limitBytes };
  }

  async *read(from: number, to: number): AsyncGenerator<LogMessage> {
    let next = from;
    while (next <= to && this.#hasBatches) {
      const before = next;
      for await (const bytes of this.#batch(next, to)) yield { sequence: next++, bytes };
      // Fetches a missing message alone, which reveals the reason.
      if (next === before && next <= to) yield { sequence: next, bytes: await this.#fetch(next++) };
    }
    yield* this.#readSingly(next, to);
  }

  /**
   * Yields messages from `from` on, as many as one answer brings; none if the next one is not
   * found.
   */
  async *#batch(from: number, to: number): AsyncGenerator<Uint8Array> {
    assert(from > 0 && from <= to, "an answer starts with the next message");
    const batch = Math.min(BATCH_MESSAGES, to - from + 1);
    const request = JSON.stringify({ seq: from, batch, max_bytes: BATCH_BYTES });
    let next = from;
    try {
      const replies = await this.#connection.requestMany(`$JS.API.DIRECT.GET.${this.#stream}`, request, {
        maxWait: APPEND_MS,
        // An answer ends with an empty message.
        strategy: "sentinel",
      });
      for await (const { headers, data } of replies) {
        if (headers?.code !== 0 || Number(headers.get("Nats-Sequence")) !== next) return;
        next++;
        yield data;
        // A server before 2.11 supports single messages only.
        this.#hasBatches &&= headers.get("Nats-Num-Pending") !== "";
        if (next > to || !this.#hasBatches) return;
      }
    } catch (error) {
      if (asLogError(error).kind === "missing") throw asLogError(error);
    }
  }

  async *#readSingly(from: number, to: number): AsyncGenerator<LogMessage> {
    const fetched: Promise<Uint8Array>[] = [];
    let next = from;
    for (let sequence = from; sequence <= to; sequence++) {
      while (next <= to && fetched.length < FETCHED_AHEAD) {
        const fetching = this.#fetch(next++);
        // Awaited below, in order.
        fetching.catch(() => {});
        fetched.push(fetching);
      }
      assert(next === sequence + fetched.length, "messages are fetched in order");
      yield { sequence, bytes: await fetched.shift()! };
    }
  }

  async #fetch(sequence: number): Promise<Uint8Array> {
    assert(sequence > 0, "messages are counted from 1");
    for (let asked = 0; asked < ASKED_MAX; asked++) {
      try {
        const message = await this.#direct.getMessage(this.#stream, { seq: sequence });
        if (message !== null && message.seq === sequence) return message.data;
        if (sequence < (await this.ends()).first)
          throw new LogError("purged", `message ${sequence} of ${this.#stream} was purged`);
      } catch (error) {
        const known = asLogError(error);
        if (known.kind === "missing" || known.kind === "purged" || asked > 2) throw known;
      }
      await sleep(ASKED_AGAIN_MS);
    }
    throw new LogError("hole", `message ${sequence} of ${this.#stream} is not found, on any server`);
  }

  async purge(below: number): Promise<void> {
    assert(below > 0, "a purge keeps a known message");
    try {
      await this.#manager.streams.purge(this.#stream, { seq: below });
    } catch (error) {
      throw asLogError(error);
    }
  }

  // --- other calls ----------------------------------------------------------------------------

  /**
   * Calls `listener` with messages as soon as they are appended. Some may be missing or late;
   * `read` has all.
   */
  follow(listener: (message: LogMessage) => void): void {
    this.#connection.subscribe(`runnerbean.${this.#group}.tail`, {
      callback: (error, message) => {
        const sequence = Number(message?.headers?.get("Nats-Sequence"));
        if (error !== null || !(sequence > 0)) return;
        try {
          listener({ sequence, bytes: message.data });
        } catch (thrown) {
          // The connection would only print the error and stop reading.
          setImmediate(() => {
            throw thrown;
          });
        }
      },
    });
  }

  /**
   * Tells the primary that batches up to `n` are on a standby's disk. The message may get lost; the
   * next one covers it.
   */
  tellKept(n: number): void {
    assert(n > 0 && n <= Number.MAX_SAFE_INTEGER, "a standby has a number of batches");
    this.#connection.publish(`runnerbean.${this.#group}.kept`, `${n}`);
  }

  onKept(listener: (n: number) => void): void {
    const callback = (error: Error | null, message: Msg): void => {
      const n = error === null ? Number(message.string()) : 0;
      // Any client of the log servers may publish here.
      if (Number.isSafeInteger(n) && n > 0) listener(n);
    };
    this.#connection.subscribe(`runnerbean.${this.#group}.kept`, { callback });
  }

  /** Answers questions to this node and to all nodes. */
  answer(node: number, answer: Asked): void {
    assert(node > 0, "an answering node has a number");
    const callback = (error: Error | null, message: Msg): void => {
      if (error === null) message.respond(answer(message.string()));
    };
    this.#connection.subscribe(this.#nodeSubject(node), { callback });
    this.#connection.subscribe(`runnerbean.${this.#group}.nodes`, { callback });
  }

  /**
   * Returns the node's report on itself; "gone" if its process is no longer connected, undefined if
   * unknown.
   */
  async ask(node: number, question = "", timeoutMs = 500): Promise<string | "gone" | undefined> {
    try {
      return (
        await this.#connection.request(this.#nodeSubject(node), question, { timeout: timeoutMs })
      ).string();
    } catch (error) {
      return isNoResponders(error) ? "gone" : undefined;
    }
  }

  /** Returns the reports of all nodes that answer in time. */
  async askAll(timeoutMs = 400): Promise<string[]> {
    const answers: string[] = [];
    try {
      const replies = await this.#connection.requestMany(`runnerbean.${this.#group}.nodes`, "", {
        maxWait: timeoutMs,
        strategy: "timer",
      });
      for await (const reply of replies) answers.push(reply.string());
    } catch (error) {
      if (!isNoResponders(error)) throw error;
    }
    return answers.filter((answer) => answer !== "");
  }
}

function isNoResponders(error: unknown): boolean {
  return (
    error instanceof NoRespondersError ||
    (error instanceof Error &&
      (error.cause instanceof NoRespondersError || /no responders/i.test(error.message)))
  );
}

function asLogError(error: unknown): LogError {
  if (error instanceof LogError) return error;
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof JetStreamApiError) {
    if (error.code === WRONG_SEQUENCE || /wrong last sequence/i.test(message))
      return new LogError("refused", message, error);
    if (FULL.includes(error.code) || /maximum (bytes|messages) exceeded/i.test(message))
      return new LogError("full", message, error);
    if (error.code === 10059 || /stream not found/i.test(message))
      return new LogError("missing", message, error);
  }
  if (error instanceof TimeoutError) return new LogError("lost", message, error);
  return new LogError("lost", message, error);
}
