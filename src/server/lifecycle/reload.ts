// Reload (SIGHUP): reads the file and the environment again, and applies all settings that may
// change at runtime. It applies all of them or none.

import type { Setting } from "../../config/setting.ts";
import { OperatorError } from "../options/operator-error.ts";
import { awaitFiles } from "../options/operator-file.ts";
import type { Exit, Options } from "../options/options.ts";
import { SETTINGS, type Settings } from "../options/settings.ts";

export interface Reloaded {
  /** Keys that took effect. */
  readonly changed: readonly string[];
  /** Keys that differ from the values at startup and need a restart. */
  readonly needsRestart: readonly string[];
}

/**
 * Prepares everything that `next` needs (files, certificates) or throws. The returned function
 * applies it and can't fail.
 */
export type Prepare = (next: Settings) => () => void;

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
    if ("exitCode" in next) throw new OperatorError(next.stderr.trimEnd(), next.exitCode);
    await awaitFiles(operatorFiles(next));
    const commit = this.#prepare(next);
    commit();
    const changed = changes(this.#current, next, true);
    const needsRestart = changes(this.#startedWith, next, false);
    this.#current = next;
    this.lastSuccessful = true;
    this.lastSuccessAt = Date.now() / 1000;
    return { changed, needsRestart };
  }
}

/** Returns all files that a server with these options reads. */
function operatorFiles({ config, tubesFile, tokenFile, httpTls, listeners }: Options): string[] {
  const certificates = [httpTls, ...listeners].flatMap(({ cert, key, clientCa }) => [cert, key, clientCa]);
  const named = [config, tubesFile, tokenFile, ...certificates].filter((path) => path !== undefined);
  return [...new Set(named)];
}

/** Returns the keys that differ: those that may change at runtime (`reloads`), or the others. */
function changes(before: Settings, after: Settings, reloads: boolean): string[] {
  const differs = (row: Setting<Settings>): boolean => {
    if (row.reloads !== true) return !reloads && shown(row, before) !== shown(row, after);
    if (reloads) return shown(row, before) !== shown(row, after);
    return row.restartPart?.(before) !== row.restartPart?.(after);
  };
  return SETTINGS.filter(differs).map((row) => row.key);
}

const shown = (row: Setting<Settings>, settings: Settings): string | undefined =>
  JSON.stringify(row.show(settings));
