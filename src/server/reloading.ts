// Rules and certificates that a reload replaces while the server runs: on SIGHUP, or over HTTP.

import type { Logger } from "pino";
import type { AccessRules, ShownCertificate, TlsPolicy } from "../acceptor/admission/listener-policy.ts";
import type { HttpOrder, HttpRules, ReloadOutcome } from "../http/http-thread.ts";
import type { AcceptorHandle } from "../threads/start-threads.ts";
import { Reloader } from "./lifecycle/reload.ts";
import { notifySystemd } from "./lifecycle/systemd-notify.ts";
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
import { OperatorError } from "./options/operator-error.ts";
import type { Exit, Options } from "./options/options.ts";
import type { Settings } from "./options/settings.ts";

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
