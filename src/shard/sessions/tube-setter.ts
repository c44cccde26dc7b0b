// Changes the settings of tubes on one shard, and records them in the log.
//
// A pattern with wildcards is sent to all shards at once, and two changes of one pattern may arrive
// in a different order at each shard. So every change has a number, the same on all shards, and for
// each setting the highest number wins. The shard that the pattern hashes to logs it.

import { assert, CHECKED } from "../../base/assert.ts";
import { asciiBytes, latin1 } from "../../base/bytes.ts";
import type { Engine } from "../../engine/engine.ts";
import { isWide, PATTERNS_MAX } from "../../engine/tubes/tube-settings.ts";
import { SettingChange } from "../../engine/tubes/tube-table.ts";
import { OptionParser, OptionsSyntax } from "../../protocol/option-parser.ts";
import { SETTING_ROWS } from "../../protocol/option-rows.ts";
import { Span } from "../../protocol/request.ts";
import { SETTINGS, type Setting, type SettingName, type SettingValues } from "../../schema/setting.ts";
import type { RecordLog } from "../records/record-log.ts";

type SettingValue = SettingValues[SettingName];

const SETTING_OF_TAG: ReadonlyMap<number, Setting> = new Map(
  SETTINGS.map((setting) => [setting.tag, setting]),
);
const SETTING_OF_WORD: ReadonlyMap<string, Setting> = new Map(
  SETTINGS.map((setting) => [setting.word, setting]),
);

/** Reads the value of an option: a number, the index of a word, or a text. */
function readValue({ kind, words }: Setting, bytes: Uint8Array, start: number, end: number): SettingValue {
  if (kind === "tube" || kind === "rate") return latin1(bytes, start, end);
  const number = new DataView(bytes.buffer, bytes.byteOffset).getFloat64(start, true);
  return words === undefined ? number : (Object.keys(words)[number] as SettingValue);
}

/**
 * Returns the settings of one pattern, as set-tube and `--tubes` write them, limited to those for
 * which `isIncluded` returns true.
 */
export function settingsText(
  values: Readonly<Partial<SettingValues>>,
  isIncluded: (name: SettingName) => boolean = () => true,
): string {
  const words: string[] = [];
  for (const { field, word, kind } of SETTINGS) {
    const value = values[field];
    if (value === undefined || !isIncluded(field)) continue;
    words.push(`${word}=${kind === "duration" ? Number(value) / 1000 : value}`);
  }
  return words.join(" ");
}

export function settingNamed(word: string): SettingName {
  const setting = SETTING_OF_WORD.get(word);
  assert(setting !== undefined, "a named setting has a row");
  return setting.field;
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
      const setting = SETTING_OF_TAG.get(tag)!;
      if (CHECKED) assert(setting !== undefined, "a setting that was parsed is known");
      if (!this.#isNewer(pattern, tag, change)) continue;
      const length = bytes[at + 1]!;
      assert(at + 2 + length <= end, "a setting ends inside its options");
      if (length === 0) delete values[setting.field];
      else Object.assign(values, { [setting.field]: readValue(setting, bytes, at + 2, at + 2 + length) });
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
