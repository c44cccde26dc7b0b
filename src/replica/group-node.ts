// A node of a group in the event loop of its thread: connects its role to the shared log, the log's
// thread and the main thread. The cores make all decisions.

import { assert } from "../base/assert.ts";
import { GROUP_ROLES, GroupFigure, type GroupNews } from "../message/group.ts";
import type { ChainPlace } from "../message/log-batch.ts";
import type { Topology } from "../message/topology.ts";
import { monotonicMs } from "../ring/monotonic-clock.ts";
import { JetStreamLog, type StreamOptions } from "./jetstream-log.ts";
import { inconsistentMembers, memberOf, type NodeReport, parseReport } from "./node-report.ts";
import {
  type GroupNodeOptions,
  LOOK_AROUND_MS,
  type NodeNews,
  NodeState,
  type OrderPort,
  sleep,
} from "./node-state.ts";
import { PrimaryNode } from "./primary-node.ts";
import { type LogEnds, LogError } from "./shared-log.ts";
import { StandbyNode } from "./standby-node.ts";

/** Maximum number of members in a report. */
const MEMBERS_MAX = 32;
/** Interval of reports that the node still waits for a log server. */
const STILL_WAITING_MS = 10_000;

export class GroupNode {
  readonly #state: NodeState;
  readonly #topology: Topology;
  readonly #port: OrderPort;
  #node = 0;
  #seed = 0;
  #standby: StandbyNode | undefined;
  #primary: PrimaryNode | undefined;
  /** Configuration problems already reported; each is reported once. */
  readonly #reported = new Set<string>();

  constructor(
    options: GroupNodeOptions,
    topology: Topology,
    port: OrderPort,
    tell: (news: NodeNews) => void,
  ) {
    this.#state = new NodeState(options, topology, port, tell);
    this.#topology = topology;
    this.#port = port;
  }

  async start(): Promise<void> {
    const { url, address } = this.#state.options;
    this.#port.on("message", (news: GroupNews) => this.#onNews(news));
    this.#state.say("info", `group ${url.group}: connecting to ${url.servers.join(", ")}`);
    const reminder = setInterval(
      () => this.#state.say("warn", "no log server answers yet"),
      STILL_WAITING_MS,
    );
    try {
      this.#state.log = await JetStreamLog.connect(url, `runnerbean ${address}`, true);
    } catch (error) {
      this.#state.end("log-refused", (error as Error).message);
      return;
    } finally {
      clearInterval(reminder);
    }
    this.#state.log.onDisconnect(() => this.#primary?.core.doubt(monotonicMs()));
    const { name, version } = this.#state.log.server;
    this.#state.say(
      "info",
      `group ${url.group}: connected to the log server ${name}, nats-server ${version}`,
    );
    const identity = await this.#findGroup();
    if (identity === undefined) return;
    this.#seed = identity.seed;
    this.#state.order({ order: "follow", groupId: identity.groupId });
  }

  /** Waits as long as the log servers have no leader; never creates a missing stream. */
  async #findGroup(): Promise<Pick<StreamOptions, "groupId" | "seed"> | undefined> {
    for (;;) {
      try {
        return await this.#state.log.identity();
      } catch (error) {
        if (error instanceof LogError && error.kind === "missing") {
          this.#state.end("log-missing", "the stream is missing");
          return undefined;
        }
        this.#state.say("warn", `the log servers do not answer yet: ${(error as Error).message}`);
        await sleep(1000);
      }
    }
  }

  #onNews(news: GroupNews): void {
    switch (news.news) {
      case "follows":
        void this.#checkName(news);
        break;
      case "applied":
        this.#standby?.applied(news);
        break;
      case "kept":
        this.#state.kept = news.place;
        this.#standby?.tellKept();
        break;
      case "lead-batch":
        assert(this.#standby !== undefined, "only a standby asks for a LEAD");
        void this.#standby.sendLead(news);
        break;
      case "tail":
        assert(this.#standby !== undefined, "only a standby asks for the end of its log");
        void this.#standby.sendTail(news.batches);
        break;
      case "set-aside":
        assert(this.#state.ended, "a directory is set aside at the end");
        this.#state.tell({ news: "ended", how: "start-anew", why: this.#state.why, folder: news.folder });
    }
  }

  /** A copied directory has the node number of another server, which answers to that number. */
  async #checkName(news: GroupNews & { news: "follows" }): Promise<void> {
    assert(this.#standby === undefined, "a node gets its number before it follows");
    const answer = await this.#state.log.ask(news.node);
    if (answer === undefined || answer === "gone") return this.#follow(news);
    this.#state.say("warn", "the directory is a copy of another server's: the node gets a new number");
    this.#state.order({ order: "rename" });
  }

  #follow(follows: GroupNews & { news: "follows" }): void {
    assert(this.#standby === undefined, "a node follows once");
    const state = this.#state;
    const { node, known } = follows;
    this.#node = node;
    const standby = new StandbyNode(state, {
      follows,
      seed: this.#seed,
      onLead: (place, sequence) => this.#lead(place, sequence),
      onEnds: (ends) => this.#noteEnds(ends),
      onLook: () => this.#publishFigures(),
    });
    this.#standby = standby;
    state.log.answer(node, (question) => this.#answer(question));
    state.log.follow((message) => {
      this.#primary?.heedOtherLead(message);
      standby.onTail(message);
    });
    const held = known.length === 0 ? "nothing" : `batch ${state.place.n}`;
    state.say(
      "info",
      `follows the group ${state.options.url.group} as node ${node.toString(16)}, with ${held} in its log`,
    );
    if (this.#seed !== 0 && this.#seed !== node)
      state.say(
        "info",
        `node ${this.#seed.toString(16)} must start the group, since it was reseeded from its directory`,
      );
    void standby.run();
    void this.#lookAround();
  }

  #lead(place: ChainPlace, sequence: number): void {
    assert(this.#standby !== undefined && this.#primary === undefined, "a standby takes the lead once");
    const { core: follower, leadSentAtMs } = this.#standby;
    const start = { place, sequence, sentAtMs: leadSentAtMs, follower };
    this.#primary = new PrimaryNode(this.#state, this.#topology, start, () => this.#publishFigures());
    this.#primary.lead(start);
  }

  /** Collects figures for operators: the group's members, and the fill level of the log. */
  async #lookAround(): Promise<void> {
    let failure = "";
    while (!this.#state.ended) {
      try {
        await this.#askOthers();
        if (this.#primary !== undefined) this.#noteEnds(await this.#state.log.ends());
        failure = "";
      } catch (error) {
        // Missing figures never stop a server; each reason is reported once until they are back.
        const { message } = error as Error;
        if (message !== failure) this.#state.say("warn", `the figures of the group are old: ${message}`);
        failure = message;
      }
      await sleep(LOOK_AROUND_MS);
    }
  }

  async #askOthers(): Promise<void> {
    const reports = (await this.#state.log.askAll())
      .map(parseReport)
      .filter((report) => report !== undefined);
    if (this.#primary !== undefined)
      this.#state.figures[GroupFigure.Standbys] = reports.filter(({ role }) => role === "standby").length;
    // The primary writes the jobs of damaged segments again, and all servers drop their files.
    if (this.#primary !== undefined)
      for (const { role, damagedBelow = 0 } of reports)
        if (role === "standby") this.#state.words.rewriteBelow(damagedBelow);
    const { address, leaseMs, logVersion } = this.#state.options;
    const own = { node: this.#node, address, leaseMs, logVersion };
    for (const [key, what] of inconsistentMembers(own, reports, Date.now())) {
      if (this.#reported.size === MEMBERS_MAX || this.#reported.has(key)) continue;
      this.#reported.add(key);
      this.#state.say("warn", what);
    }
    const members = reports.slice(0, MEMBERS_MAX).map(memberOf);
    this.#state.tell({ news: "members", group: this.#state.options.url.group, node: this.#node, members });
  }

  #noteEnds(ends: LogEnds): void {
    this.#state.noteEnds(ends);
    this.#primary?.noteRoom();
  }

  /** Records that the node serves clients from here on. */
  serves(): void {
    assert(this.#state.role === "opening", "a serving node has the lead");
    this.#state.role = "primary";
  }

  /** Reports when everything that the log has written is acknowledged. */
  drain(): void {
    if (this.#primary === undefined) this.#state.tell({ news: "drained" });
    else this.#primary.drain();
  }

  /** Publishes figures for metrics. */
  #publishFigures(): void {
    const figures = this.#state.figures;
    const primary = this.#primary?.core;
    const follower = this.#standby?.core;
    figures[GroupFigure.Role] = GROUP_ROLES.indexOf(this.#state.role);
    figures[GroupFigure.Epoch] = this.#state.place.epoch;
    figures[GroupFigure.Batch] = this.#state.place.n;
    figures[GroupFigure.PendingBatches] = primary?.pendingBatches ?? 0;
    figures[GroupFigure.MessagesUnderWay] = primary?.messagesUnderWay ?? 0;
    figures[GroupFigure.Doubts] = primary?.doubts ?? 0;
    figures[GroupFigure.Ignored] = follower?.ignored ?? 0;
    figures[GroupFigure.Behind] = this.#messagesBehind;
  }

  /** Returns the number of messages that a standby has not read yet. */
  get #messagesBehind(): number {
    return this.#primary === undefined ? (this.#standby?.core.behind ?? 0) : 0;
  }

  #answer(question: string): string {
    if (question === "yield") {
      if (this.#state.role === "primary") this.#state.tell({ news: "yield-asked" });
      return this.#state.role === "primary" ? "yields" : "no";
    }
    assert(this.#node > 0, "an answering node has a number");
    const follower = this.#standby?.core;
    const primary = this.#primary?.core;
    const report: NodeReport = {
      node: this.#node,
      role: this.#state.role,
      address: this.#state.options.address,
      epoch: this.#state.place.epoch,
      n: this.#state.place.n,
      tag: this.#state.place.tag,
      mayServe: this.#state.role === "primary" && (primary?.serveUntilMs ?? 0) > monotonicMs(),
      pendingBatches: primary?.pendingBatches ?? 0,
      messagesUnderWay: primary?.messagesUnderWay ?? 0,
      doubts: primary?.doubts ?? 0,
      ignored: follower?.ignored ?? 0,
      isComplete: follower?.isComplete ?? false,
      behind: this.#messagesBehind,
      pid: process.pid,
      version: this.#state.options.version,
      leaseMs: this.#state.options.leaseMs,
      wallMs: Date.now(),
      logVersion: this.#state.options.logVersion,
      damagedBelow: this.#state.words.damagedBelow,
    };
    return JSON.stringify(report);
  }
}
