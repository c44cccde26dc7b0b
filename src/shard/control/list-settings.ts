// Settings of tubes for the HTTP thread: a page of patterns in order, or what is in effect for one
// tube.

import { assert } from "../../base/assert.ts";
import type { Engine } from "../../engine/engine.ts";
import type { Answers, SettingInEffect, TubeDetails } from "../../message/control.ts";
import { settingNamed, settingsText } from "../replies/tube-setter.ts";
import type { ControlAnswerer, ControlShard, ControlWork } from "./control-work.ts";

/** Patterns examined in a slice: about 0.1 ms. */
const SLICE_PATTERNS = 300;
/** Settings in a part. One takes up to 1 KiB with its pattern. */
const PART_SETTINGS = 20;

/** Lists the first patterns after another one. The stored patterns are not sorted. */
export class ListSettings implements ControlWork {
  readonly #shard: ControlShard;
  readonly #patterns: Iterator<readonly [string, object]>;
  readonly #after: string;
  readonly #limit: number;
  /** The first patterns so far, in order. */
  readonly #first: string[] = [];
  /** The number of patterns at the start, so that new ones can't prolong the search for ever. */
  #left: number;

  constructor(shard: ControlShard, { after, limit }: { after: string; limit: number }) {
    const { settings } = shard.engine;
    this.#shard = shard;
    this.#after = after;
    this.#limit = limit;
    assert(limit > 0, "a page has room for a setting");
    this.#left = settings.size;
    this.#patterns = settings.entries();
  }

  step(answerer: ControlAnswerer): boolean {
    for (let slice = SLICE_PATTERNS; slice > 0 && this.#left > 0; slice--) {
      const { done, value } = this.#patterns.next();
      this.#left = done === true ? 0 : this.#left - 1;
      if (done !== true) this.#note(value[0]);
    }
    if (this.#left > 0) {
      answerer.value([], false);
      return false;
    }
    const part = this.#first.splice(0, PART_SETTINGS).flatMap((pattern) => {
      const text = textOf(this.#shard, pattern);
      return text === null ? [] : [[pattern, text]];
    });
    const isLast = this.#first.length === 0;
    answerer.value(part, isLast);
    return isLast;
  }

  cancel(): void {
    this.#left = 0;
    this.#first.length = 0;
  }

  /** Keeps a pattern if it is among the first so far. */
  #note(pattern: string): void {
    const first = this.#first;
    if (pattern <= this.#after || !this.#shard.ownsTube(pattern)) return;
    if (first.length === this.#limit && pattern > first.at(-1)!) return;
    let [low, high] = [0, first.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (first[middle]! < pattern) low = middle + 1;
      else high = middle;
    }
    first.splice(low, 0, pattern);
    if (first.length > this.#limit) first.pop();
    assert(first.length <= this.#limit, "a page has no more settings than were asked for");
  }
}

/** Returns the settings of a pattern as set-tube writes them, or null if it has none. */
export function textOf({ engine }: ControlShard, pattern: string): string | null {
  const values = engine.settings.get(pattern);
  return values === undefined ? null : settingsText(values);
}

/** Returns the facts of inspect-tube, or the settings for a tube that doesn't exist. */
export function inspectTube({ engine, nowMs }: ControlShard, name: string): Answers["inspect-tube"] {
  const tube = engine.findTube(name);
  const policy = tube === undefined ? engine.settings.policyOf(name) : tube.policy;
  const settings = (policy === undefined ? "" : settingsText(policy, (each) => policy.sources.has(each)))
    .split(" ")
    .filter((option) => option !== "")
    .map((option): SettingInEffect => {
      const [word, value] = option.split("=", 2) as [string, string];
      return [word, value, policy!.sources.get(settingNamed(word)) ?? ""];
    });
  return { settings, details: tube === undefined ? null : detailsOf(tube, nowMs) };
}

type Tube = NonNullable<ReturnType<Engine["findTube"]>>;

function detailsOf(tube: Tube, nowMs: number): TubeDetails {
  assert((tube.groups?.blocked ?? 0) <= (tube.groups?.size ?? 0), "blocked groups are among the groups");
  const { duplicates, rejected, expired, dead, movedIn, movedOut } = tube.counts;
  const tokens = tube.limiter?.tokens(nowMs) ?? Number.POSITIVE_INFINITY;
  return {
    groups: tube.groups?.size ?? 0,
    groupsBlocked: tube.groups?.blocked ?? 0,
    duplicates,
    rejected,
    expired,
    dead,
    movedIn,
    movedOut,
    tokens: tokens === Number.POSITIVE_INFINITY ? undefined : Math.max(0, Math.floor(tokens)),
  };
}
