// Rules and certificates that a reload replaces while the server runs: on SIGHUP, or over HTTP.

import { type ChildProcess, spawn } from "node:child_process";
import type { Logger } from "pino";
import type { AccessRules, ShownCertificate, TlsPolicy } from "../acceptor/admission/listener-policy.ts";
import { FILE_BYTES_MAX } from "../config/operator-file.ts";
import type { Setting } from "../config/setting.ts";
import type { HttpOrder, HttpRules, ReloadOutcome } from "../http/http-thread.ts";
import type { AcceptorHandle } from "../threads/start-threads.ts";
import { notifySystemd } from "./lifecycle/process.ts";
import {
  certificateOf,
  certificatesOf,
  contentChanges,
  contentsOf,
  expiryWarnings,
  readAccessRules,
  readTls,
} from "./listeners/access-rules.ts";
import { unchangeableTls } from "./options/http-settings.ts";
import { changedListeners } from "./options/listener-settings.ts";
import { ExitCode, OperatorError } from "./options/operator-error.ts";
import { type Exit, messageOf, type Options } from "./options/options.ts";
import { SETTINGS, type Settings } from "./options/settings.ts";

// Reload (SIGHUP): reads the file and the environment again, and applies all settings that may
// change at runtime. It applies all of them or none.

export interface Reloaded {
  /** Keys that took effect, and what is new in the files: "max-memory", "token ann removed". */
  readonly changed: readonly string[];
  /** Keys that differ from the values at startup and need a restart. */
  readonly needsRestart: readonly string[];
}

/**
 * Prepares everything that `next` needs (files, certificates) or throws. The returned function
 * applies it, can't fail, and returns what is new in the files.
 */
type Prepare = (next: Settings) => () => readonly string[];

export class Reloader {
  readonly #startedWith: Settings;
  #current: Options;
  readonly #reread: () => Options | Exit;
  readonly #prepare: Prepare;
  /** Whether the last reload succeeded; true before the first one. */
  lastSuccessful = true;
  /** Unix time of the last successful reload, or of the start, in seconds. */
  lastSuccessAt: number = Date.now() / 1000;

  constructor(options: Options, reread: () => Options | Exit, prepare: Prepare) {
    this.#startedWith = options;
    this.#current = options;
    this.#reread = reread;
    this.#prepare = prepare;
  }

  /**
   * Throws an OperatorError that names every fault, and then changes nothing. The process handles
   * signals while this waits for files.
   */
  async reload(): Promise<Reloaded> {
    this.lastSuccessful = false;
    await awaitFiles(operatorFiles(this.#current));
    const next = this.#reread();
    if ("exitCode" in next) throw new OperatorError(messageOf(next), next.exitCode);
    await awaitFiles(operatorFiles(next));
    const commit = this.#prepare(next);
    const inFiles = commit();
    const changed = [...changes(this.#current, next, true), ...inFiles];
    const needsRestart = changes(this.#startedWith, next, false);
    this.#current = next;
    this.lastSuccessful = true;
    this.lastSuccessAt = Date.now() / 1000;
    return { changed, needsRestart };
  }
}

function operatorFiles({ config, tubesFile, tokenFile, httpTls, listeners }: Options): string[] {
  const certificates = [httpTls, ...listeners].flatMap(({ cert, key, clientCa }) => [cert, key, clientCa]);
  const named = [config, tubesFile, tokenFile, ...certificates].filter((path) => path !== undefined);
  return [...new Set(named)];
}

/** Returns the keys that differ: those that may change at runtime (`reloads`), or the others. */
function changes(before: Settings, after: Settings, reloads: boolean): string[] {
  const differs = (row: Setting<Settings>): boolean => {
    const isShown = shown(row, before) !== shown(row, after);
    if (reloads) return row.reloads === true && isShown;
    return (row.reloads !== true && isShown) || row.restartPart?.(before) !== row.restartPart?.(after);
  };
  return SETTINGS.filter(differs).map((row) => row.key);
}

const shown = (row: Setting<Settings>, settings: Settings): string | undefined =>
  JSON.stringify(row.show(settings));

// --- files that don't answer ------------------------------------------------------------------

/** Time limit for each file. */
const ANSWER_MS = 5000;

/** Reads no FIFO, which could take forever; the reader of this process refuses it. */
const READ_FILE = 'test -f "$1" && exec head -c "$2" -- "$1"';

/**
 * Resolves once all `paths` have been read or have failed. Throws an OperatorError for a file that
 * takes too long.
 */
async function awaitFiles(paths: readonly string[]): Promise<void> {
  const readers = new Set<ChildProcess>();
  const end = (): void => {
    for (const reader of readers) reader.kill("SIGKILL");
  };
  // One listener for all readers: Node warns of a leak if there are more than ten.
  process.once("exit", end);
  const read = await Promise.allSettled(paths.map((path) => awaitFile(path, readers)));
  process.removeListener("exit", end);
  const late = read.find(({ status }) => status === "rejected");
  if (late !== undefined) throw (late as PromiseRejectedResult).reason;
}

/**
 * Reads the file in another process first. On a mount that doesn't answer, the read never ends, and
 * a thread that hangs in it would keep this process from exiting. `readers` holds the other process
 * while it reads.
 */
function awaitFile(path: string, readers: Set<ChildProcess>): Promise<void> {
  return new Promise((resolve, reject) => {
    const reader = spawn("sh", ["-c", READ_FILE, "sh", path, `${FILE_BYTES_MAX}`], { stdio: "ignore" });
    readers.add(reader);
    const settle = (): void => {
      clearTimeout(timer);
      readers.delete(reader);
    };
    const timer = setTimeout(() => {
      settle();
      reader.kill("SIGKILL");
      reader.unref();
      const what = `${path} could not be read within ${ANSWER_MS / 1000} s`;
      reject(new OperatorError(`${what}: is it on a mount that doesn't answer?`, ExitCode.Usage));
    }, ANSWER_MS);
    const answered = (): void => {
      settle();
      resolve();
    };
    reader.once("exit", answered);
    // Without a shell, the files are read without this check.
    reader.once("error", answered);
  });
}

const EXPIRY_LOOK_MS = 12 * 3_600_000;

/** The parts of the server that a reload changes. */
interface ReloadHost {
  readonly log: Logger;
  readonly isServing: () => boolean;
  readonly acceptors: () => readonly AcceptorHandle[];
  readonly tellHttp: (order: HttpOrder) => void;
  readonly limitMemory: (bytesMax: number) => void;
}

export class Reloading {
  readonly #options: Options;
  readonly #host: ReloadHost;
  readonly #reloader: Reloader;
  /** The last requested reload. */
  #reloaded: Promise<void> = Promise.resolve();
  #rules: AccessRules;
  #tokenFile: string | undefined;
  #httpTls: TlsPolicy | undefined;
  #httpRequestsMax: number;
  #httpProxyFrom: readonly string[] | undefined;
  #expiryTimer: NodeJS.Timeout | undefined;

  /** `reread` reads the options again. Throws an OperatorError if a file can't be used. */
  constructor(options: Options, reread: () => Options | Exit, host: ReloadHost) {
    this.#options = options;
    this.#host = host;
    this.#reloader = new Reloader(options, reread, (next) => this.#prepare(next));
    this.#tokenFile = options.tokenFile;
    this.#rules = readAccessRules(options, options.listen !== "none");
    this.#httpTls = readTls("http", options.httpTls);
    this.#httpRequestsMax = options.httpRequestsMax;
    this.#httpProxyFrom = options.httpProxyFrom;
  }

  /** The rules of the listeners. */
  get rules(): AccessRules {
    return this.#rules;
  }

  /** The rules of the HTTP side, where a token file means that every client needs a token. */
  get httpRules(): HttpRules {
    return {
      tokens: this.#tokenFile === undefined ? undefined : this.#rules.tokens,
      requestsMax: this.#httpRequestsMax,
      proxyFrom: this.#httpProxyFrom,
      tls: this.#httpTls,
      certificates: this.#certificates,
    };
  }

  /** All certificates that the server presents. */
  get #certificates(): ShownCertificate[] {
    const ofHttp = this.#httpTls === undefined ? [] : [certificateOf("http", this.#httpTls)];
    return [...certificatesOf(this.#rules), ...ofHttp];
  }

  /** Reloads one request after another. `question` is the number of a request over HTTP. */
  reload(by: string, question?: number): void {
    this.#reloaded = this.#reloaded.then(() => this.#reloadNow(by, question));
  }

  /** Applies all or nothing: with any fault, everything stays as it was. */
  async #reloadNow(by: string, question?: number): Promise<void> {
    // Before the server serves, "ready" would end the start too early.
    if (this.#host.isServing()) notifySystemd("reloading");
    const outcome = await this.#readAgain(by);
    if (this.#host.isServing()) notifySystemd("ready");
    const { lastSuccessful: successful, lastSuccessAt: successAt } = this.#reloader;
    const asked = question === undefined ? {} : { question };
    this.#host.tellHttp({ order: "reloaded", successful, successAt, ...asked, outcome });
  }

  async #readAgain(by: string): Promise<ReloadOutcome> {
    const { log } = this.#host;
    try {
      const { changed, needsRestart } = await this.#reloader.reload();
      const rest = needsRestart.length === 0 ? "" : `; needs a restart: ${needsRestart.join(", ")}`;
      log.info(`${by}: configuration read again; changed: ${changed.join(", ") || "nothing"}${rest}`);
      return { changed, needsRestart };
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      log.error(`${by}: everything stays as it was: ${error.message}`);
      return { faults: error.message };
    }
  }

  #prepare(next: Settings): () => readonly string[] {
    const { listeners: open, listen } = this.#options;
    const listeners = changedListeners(open, next.listeners);
    const hasFirst = listen !== "none";
    const policies = this.#rules.policies.slice(hasFirst ? 1 : 0);
    const kept = new Map(open.map((listener, index) => [listener, policies[index]]));
    const rules = readAccessRules({ ...next, listeners }, hasFirst, kept);
    const isSame = unchangeableTls(next.httpTls) === unchangeableTls(this.#options.httpTls);
    const httpTls = isSame ? readTls("http", next.httpTls) : this.#httpTls;
    const { log, acceptors, limitMemory, tellHttp } = this.#host;
    const before = contentsOf(this.#rules, this.#httpTls);
    return () => {
      log.level = next.logLevel;
      this.#rules = rules;
      this.#tokenFile = next.tokenFile;
      limitMemory(next.memoryBytesMax);
      for (const acceptor of acceptors()) acceptor.configure(rules);
      this.#httpTls = httpTls;
      this.#httpRequestsMax = next.httpRequestsMax;
      this.#httpProxyFrom = next.httpProxyFrom;
      tellHttp({ order: "configure", rules: this.httpRules });
      this.warnOfExpiry();
      return contentChanges(before, contentsOf(rules, httpTls));
    };
  }

  /** Warns of certificates that expire soon, and again every twelve hours. */
  warnOfExpiry(): void {
    clearTimeout(this.#expiryTimer);
    for (const warning of expiryWarnings(this.#certificates, Date.now())) this.#host.log.warn(warning);
    this.#expiryTimer = setTimeout(() => this.warnOfExpiry(), EXPIRY_LOOK_MS).unref();
  }
}
