// Loop of the log's thread on a standby: executes the orders of the group's thread one after
// another until the node has the lead.

import { randomInt } from "node:crypto";
import type { MessagePort } from "node:worker_threads";
import { assert } from "../base/assert.ts";
import { segmentNumber } from "../base/text.ts";
import type { GroupNews, GroupOrder } from "../message/group.ts";
import { type ChainPlace, logBatchesOf } from "../message/log-batch.ts";
import { asBinlogError, BinlogError } from "./disk/binlog-error.ts";
import { forgetStarts, type GroupFile, readGroupFile, writeGroupFile } from "./disk/checked-json.ts";
import { FollowLog, finishCut } from "./follow-log.ts";
import { openBinlog } from "./open-binlog.ts";
import type { LogProblem, LogVerdict } from "./recovery/log-verdict.ts";
import { type OpenOptions, StartInterrupted } from "./recovery/open-options.ts";
import { readLog } from "./recovery/read-log.ts";

// Opens a directory as the log of a standby: finishes a cut, judges the log, and refuses damage.

/**
 * The directory must be locked. Records up to `adoptAfter` are the directory's own jobs, whatever
 * batches they came in. Throws a BinlogError.
 */
export async function openFollowLog(
  options: OpenOptions,
  adoptAfter: number,
  extentBytes?: number,
): Promise<FollowLog> {
  try {
    finishCut(options, extentBytes);
    let verdict = await judged(options);
    // The directory has jobs of its own: repair the log as usual after a crash, so that the group
    // begins after it.
    if (!holdsChain(verdict, adoptAfter) && verdict.kept.length > 0) {
      (await openBinlog({ ...options, chain: undefined })).storage.close(0);
      verdict = await judged(options);
    }
    return new FollowLog(options, verdict, adoptAfter, extentBytes);
  } catch (error) {
    throw asBinlogError(error, options.disk.path);
  }
}

function holdsChain(verdict: LogVerdict, adoptAfter: number): boolean {
  return verdict.kept.some(({ batches }) => batches.some(({ header }) => header.sequence > adoptAfter));
}

async function judged(options: OpenOptions): Promise<LogVerdict> {
  const { verdict } = await readLog(options, false);
  const problem = verdict.problems.find((each) => !isYetToCome(each, options));
  if (problem !== undefined) throw problem.error;
  return verdict;
}

/**
 * Returns whether a missing segment may still arrive. A node that started with the first message of
 * the shared log lacks the segments before it until the leader rewrites them. A server outside a
 * group refuses such a directory, because nothing would bring the segments.
 */
function isYetToCome({ error, segment }: LogProblem, { disk }: OpenOptions): boolean {
  if (error.code !== "BINLOG_MISSING_FILE") return false;
  return disk.names().every((name) => segmentNumber(name) === 0 || segmentNumber(name) > segment);
}

/** Interval of checks for a stop or a due sync. */
const LOOK_MS = 20;

export interface Lead {
  place: ChainPlace;
  node: number;
  /** Segments below this one hold jobs that the group lacks. */
  rewriteBelow: number;
}

export class Following {
  readonly #options: OpenOptions;
  readonly #port: MessagePort;
  readonly #clockMs: () => number;
  #log: FollowLog | undefined;
  #file: GroupFile | undefined;
  #keptTag = 0;
  #done: (lead: Lead) => void = () => {};
  #failed: (error: unknown) => void = () => {};
  #busy: Promise<void> = Promise.resolve();

  constructor(options: OpenOptions, port: MessagePort) {
    this.#options = options;
    this.#port = port;
    this.#clockMs = options.clockMs;
  }

  /** Resolves when the node has the lead. Rejects with a BinlogError, or when the server stops. */
  async untilLead(): Promise<Lead> {
    const lead = new Promise<Lead>((resolve, reject) => {
      this.#done = resolve;
      this.#failed = reject;
    });
    const timer = setInterval(() => this.#look(), LOOK_MS);
    this.#port.on("message", (order: GroupOrder) => {
      this.#busy = this.#busy
        .then(() => this.#obey(order))
        .catch((error: unknown) => this.#failed(asBinlogError(error, this.#options.disk.path)));
    });
    try {
      return await lead;
    } finally {
      clearInterval(timer);
      this.#port.close();
    }
  }

  #look(): void {
    try {
      this.#log?.flush(this.#clockMs());
      this.#tellKept();
      StartInterrupted.check(this.#options.stopping);
    } catch (error) {
      this.#log?.close();
      this.#failed(error);
    }
  }

  #tell(news: GroupNews): void {
    this.#port.postMessage(news);
  }

  async #obey(order: GroupOrder): Promise<void> {
    switch (order.order) {
      case "follow":
        return this.#follow(order.groupId);
      case "apply":
        return this.#apply(order.batches);
      case "cut":
        return this.#opened.cutAfter(order.n);
      case "tail":
        return this.#tell({ news: "tail", batches: this.#opened.tail(order.after) });
      case "lead-batch": {
        const { tag, expectedLast } = order;
        const bytes = this.#opened.leadBatch(this.#joined.node, tag);
        return this.#tell({ news: "lead-batch", tag, expectedLast, bytes });
      }
      case "lead":
        return this.#lead(order.place);
      case "rename":
        return this.#rename();
      case "set-aside":
        return this.#setAside();
    }
  }

  get #joined(): GroupFile {
    assert(this.#file !== undefined, "a following node has a group file");
    return this.#file;
  }

  get #opened(): FollowLog {
    assert(this.#log !== undefined, "orders go to an open log");
    return this.#log;
  }

  async #follow(groupId: string): Promise<void> {
    assert(this.#log === undefined, "a node starts to follow once");
    const { disk } = this.#options;
    let file = readGroupFile(disk);
    if (file !== undefined && file.groupId !== groupId) throw otherGroup(disk.path);
    if (file === undefined) {
      file = { groupId, node: newNode(), adoptAfter: 0 };
      writeGroupFile(disk, file);
      forgetStarts(disk);
    }
    this.#file = file;
    this.#log = await openFollowLog(this.#options, file.adoptAfter).catch((error: unknown) => {
      throw adviceInGroup(error, disk.path);
    });
    this.#tellFollows();
  }

  #tellFollows(): void {
    const { known, hasOwnJobs, isComplete } = this.#opened;
    this.#tell({ news: "follows", node: this.#joined.node, known, hasOwnJobs, isComplete });
  }

  #rename(): void {
    this.#file = { ...this.#joined, node: newNode() };
    writeGroupFile(this.#options.disk, this.#file);
    this.#tellFollows();
  }

  #apply(messages: readonly Uint8Array[]): void {
    let bytes = 0;
    for (const message of messages) {
      bytes += message.length;
      const batches = logBatchesOf(message);
      assert(batches !== undefined, "an order has complete batches");
      for (const batch of batches) this.#opened.apply(batch);
    }
    this.#opened.flush(this.#clockMs());
    const { place, isComplete } = this.#opened;
    this.#tell({ news: "applied", bytes, n: place.n, isComplete });
    this.#tellKept();
  }

  #tellKept(): void {
    const place = this.#log?.kept;
    if (place === undefined || place.tag === this.#keptTag) return;
    assert(place.n <= this.#opened.place.n, "a kept batch was applied");
    this.#keptTag = place.tag;
    this.#tell({ news: "kept", place });
  }

  #lead(place: ChainPlace): void {
    const log = this.#opened;
    assert(place.n === log.place.n && place.tag === log.place.tag, "a node leads from its last batch");
    const { rewriteBelow } = log;
    log.close();
    this.#done({ place, node: this.#joined.node, rewriteBelow });
  }

  /**
   * Moves all segments to a separate folder for the operator; the node starts from scratch at its
   * next start.
   */
  #setAside(): void {
    const { disk, wallMs } = this.#options;
    this.#log?.close();
    const folder = `set-aside-${new Date(wallMs()).toISOString().replaceAll(":", "-")}`;
    disk.makeFolder(folder);
    for (const name of disk.names()) if (segmentNumber(name) > 0) disk.rename(name, `${folder}/${name}`);
    forgetStarts(disk);
    disk.syncFolder(folder);
    disk.syncFolder();
    this.#log = undefined;
    this.#tell({ news: "set-aside", folder });
  }
}

/** The highest number is reserved for "no node". */
function newNode(): number {
  return randomInt(1, 2 ** 32 - 1);
}

/** In a group, the operator need not sacrifice jobs to start: another server has them. */
function adviceInGroup(error: unknown, path: string): unknown {
  if (!(error instanceof BinlogError) || !DAMAGE.has(error.code)) return error;
  return new BinlogError(
    error.code,
    error.message,
    `Check whether another server of the group has the jobs: "runnerbean replica status URL". If so, move ${path} away and start again: it follows and gets everything. Do not use --salvage in a group, unless this is the only copy: then salvage it without --replicate, and give it to the group with "runnerbean replica reseed".`,
  );
}

const DAMAGE: ReadonlySet<string> = new Set(["BINLOG_CORRUPT", "BINLOG_MISSING_FILE"]);

function otherGroup(path: string): BinlogError {
  return new BinlogError(
    "REPLICA_OTHER_GROUP",
    `${path} belongs to another group than this stream, or the stream was created again`,
    'If the stream was lost, restore the group with "runnerbean replica reseed" from the most advanced directory; otherwise check the URL.',
  );
}
