// Changes the settings of tubes on one shard, and records them in the log.
//
// A pattern with wildcards is sent to all shards at once, and two changes of one pattern may arrive
// in a different order at each shard. So every change has a number, the same on all shards, and for
// each setting the highest number wins. The shard that the pattern hashes to logs it.

import { assert, CHECKED } from "../../base/assert.ts";
import { asciiBytes, latin1 } from "../../base/bytes.ts";
import type { Engine } from "../../engine/engine.ts";
import {
  isWide,
  PATTERNS_MAX,
  type SettingName,
  type SettingValues,
} from "../../engine/tubes/tube-settings.ts";
import { SettingChange } from "../../engine/tubes/tube-table.ts";
import { OptionParser, OptionsSyntax } from "../../protocol/option-parser.ts";
import { EXPIRE_WORDS, OptionTag, SETTING_ROWS } from "../../protocol/option-rows.ts";
import { Span } from "../../protocol/request.ts";
import type { RecordLog } from "../records/record-log.ts";

type SettingValue = SettingValues[SettingName];
/** The settings whose value is a number. */
type NumberName = { [Name in SettingName]: SettingValues[Name] extends number ? Name : never }[SettingName];

/** How a setting is stored and printed. */
interface SettingKind {
  readonly name: SettingName;
  readonly read: (bytes: Uint8Array, start: number, end: number) => SettingValue;
  readonly write: (value: SettingValue) => string;
}

const number = (bytes: Uint8Array, start: number): number =>
  new DataView(bytes.buffer, bytes.byteOffset).getFloat64(start, true);

const numeric = (name: NumberName): SettingKind => ({ name, read: number, write: String });
const duration = (name: NumberName): SettingKind => ({
  name,
  read: number,
  write: (ms) => String(Number(ms) / 1000),
});

const KINDS: Readonly<Record<number, SettingKind>> = {
  [OptionTag.MaxAttempts]: numeric("maxAttempts"),
  [OptionTag.DeadLetter]: { name: "deadLetter", read: latin1, write: String },
  [OptionTag.Backoff]: duration("backoffMs"),
  [OptionTag.BackoffMax]: duration("backoffMaxMs"),
  [OptionTag.Ttl]: duration("ttlMs"),
  [OptionTag.Expire]: {
    name: "expireBuries",
    read: (bytes, start) => number(bytes, start) === EXPIRE_WORDS.indexOf("bury"),
    write: (buries) => EXPIRE_WORDS[buries === true ? 1 : 0]!,
  },
  [OptionTag.MaxJobs]: numeric("maxJobs"),
  [OptionTag.MaxBytes]: numeric("maxBytes"),
  [OptionTag.MaxReserved]: numeric("maxReserved"),
  [OptionTag.Rate]: { name: "rate", read: latin1, write: String },
  [OptionTag.Burst]: numeric("burst"),
  [OptionTag.GroupMaxReserved]: numeric("groupMaxReserved"),
  [OptionTag.MaxGroups]: numeric("maxGroups"),
};

/**
 * Returns the settings of one pattern, as set-tube and `--tubes` write them, limited to those for
 * which `isIncluded` returns true.
 */
export function settingsText(
  values: Readonly<Partial<SettingValues>>,
  isIncluded: (name: SettingName) => boolean = () => true,
): string {
  const words: string[] = [];
  for (const { name, tag } of SETTING_ROWS) {
    const kind = KINDS[tag]!;
    const value = values[kind.name];
    if (value !== undefined && isIncluded(kind.name)) words.push(`${name}=${kind.write(value)}`);
  }
  return words.join(" ");
}

/** Returns the setting that a word of a line stands for. */
export function settingNamed(word: string): SettingName {
  const row = SETTING_ROWS.find(({ name }) => name === word);
  assert(row !== undefined, "a named setting has a row");
  return KINDS[row.tag]!.name;
}

/**
 * Maximum number of patterns whose last changes are kept: those with settings, and as many that had
 * some.
 */
const CHANGES_MAX = 2 * PATTERNS_MAX;

export class TubeSetter {
  readonly #engine: Engine;
  readonly #records: RecordLog | undefined;
  /**
   * Returns whether this shard logs the settings of a pattern. For a plain name, it is also the
   * shard of the tube.
   */
  readonly owns: (pattern: string) => boolean;
  readonly #onMayLeave: () => void;
  /** The number of the last change, by pattern with wildcards and then by tag of the setting. */
  readonly #changes = new Map<string, Map<number, number>>();

  /** `onMayLeave` is called before a setting takes effect that may send jobs to another shard. */
  constructor(
    engine: Engine,
    records: RecordLog | undefined,
    owns: (pattern: string) => boolean,
    onMayLeave: () => void = () => {},
  ) {
    this.#engine = engine;
    this.#records = records;
    this.owns = owns;
    this.#onMayLeave = onMayLeave;
  }

  /** Returns whether a pattern has settings or may get some. */
  mayHave(pattern: string): boolean {
    const { settings } = this.#engine;
    return settings.get(pattern) !== undefined || settings.hasRoomFor(pattern);
  }

  /**
   * Makes change number `change`. The steps of the result apply it to existing tubes. Returns
   * undefined if there are too many patterns.
   */
  change(pattern: string, options: Span, change: number, nowMs: number): SettingChange | undefined {
    this.#engine.runDue(nowMs);
    if (!this.mayHave(pattern)) return undefined;
    const values: Partial<SettingValues> = { ...this.#engine.settings.get(pattern) };
    this.#apply(pattern, options, change, values);
    const setting = this.#engine.beginSetting(pattern, values);
    if (this.owns(pattern)) this.#records?.set(pattern, settingsText(values));
    return setting;
  }

  #apply(pattern: string, options: Span, change: number, values: Partial<SettingValues>): void {
    const { bytes, start, end } = options;
    for (let at = start; at + 2 <= end && bytes[at] !== 0; at += 2 + bytes[at + 1]!) {
      const tag = bytes[at]!;
      const kind = KINDS[tag]!;
      if (CHECKED) assert(kind !== undefined, "a setting that was parsed is known");
      if (!this.#isNewer(pattern, tag, change)) continue;
      assert(change >= 0, "a change has a number");
      const length = bytes[at + 1]!;
      assert(at + 2 + length <= end, "a setting ends inside its options");
      if (length === 0) delete values[kind.name];
      else Object.assign(values, { [kind.name]: kind.read(bytes, at + 2, at + 2 + length) });
    }
    if (values.deadLetter !== undefined && !this.owns(values.deadLetter)) this.#onMayLeave();
  }

  #isNewer(pattern: string, tag: number, change: number): boolean {
    if (!isWide(pattern)) return true;
    let changes = this.#changes.get(pattern);
    if (changes === undefined) {
      if (this.#changes.size >= CHANGES_MAX) this.#forgetOldest();
      assert(this.#changes.size < CHANGES_MAX, "a forgotten pattern makes room");
      this.#changes.set(pattern, (changes = new Map()));
    }
    if ((changes.get(tag) ?? 0) > change) return false;
    changes.set(tag, change);
    return true;
  }

  /** Number of patterns whose last changes are known. */
  get changedPatterns(): number {
    return this.#changes.size;
  }

  /**
   * Forgets a pattern whose last change is long past: no change of it is still in flight. Prefers
   * one without settings; there may be none, because `--tubes` may give settings to more patterns
   * than clients may.
   */
  #forgetOldest(): void {
    let oldest: string | undefined;
    for (const pattern of this.#changes.keys()) {
      oldest ??= pattern;
      if (this.#engine.settings.get(pattern) !== undefined) continue;
      oldest = pattern;
      break;
    }
    if (oldest !== undefined) this.#changes.delete(oldest);
  }

  /**
   * Applies settings from the log and files; later ones win. The tubes get all settings at once: if
   * the rate came before the burst, the bucket would not start full.
   */
  restore(settings: Iterable<readonly [pattern: string, text: string]>, nowMs: number): void {
    for (const [pattern, text] of settings) this.#restoreOne(pattern, text);
    new SettingChange(this.#engine, "*").step(Number.POSITIVE_INFINITY, nowMs);
  }

  /** Ignores settings that concern only another shard. */
  #restoreOne(pattern: string, text: string): void {
    if (!isWide(pattern) && !this.owns(pattern)) return;
    const values: Partial<SettingValues> = { ...this.#engine.settings.get(pattern) };
    const options = new Span();
    const bytes = asciiBytes(` ${text}`);
    if (parser.parse(bytes, 0, bytes.length, SETTING_ROWS, options) !== OptionsSyntax.Ok) return;
    this.#apply(pattern, options, 0, values);
    this.#engine.settings.set(pattern, values);
  }
}

const parser = new OptionParser();
