// Unique keys of a shard's jobs: which job holds a key, which key outlives its job, and what the
// log states about both.
//
// A key belongs to the tube of its job's put. If the job leaves the tube before the time of the key
// is over, the key stays behind, with a record of its own: the job's record goes along.
//
// Each record of a job that was put with a key contains the state of the key (`KeyState`), so a
// restart restores the exact holders. Older servers didn't log the state. Their records are read by
// the rule of those servers: a living job holds its key, unless a reservation has ended the key.

import { assert, CHECKED } from "../../base/assert.ts";
import type { AttributeWriter } from "../../protocol/job-attribute.ts";
import * as attribute from "../../protocol/job-attribute.ts";
import { DeathReason, KeyState } from "../../protocol/job-attribute.ts";
import { JobCounter } from "../../schema/job.ts";
import { ExtraFlag, type JobExtras, NO_SLOT, rowOf } from "../jobs/job-table.ts";
import type { JobAttributes } from "../jobs/new-job.ts";
import type { ShardState } from "../state/shard-state.ts";
import type { Tube } from "../tubes/tube.ts";
import { KEYS_MAX, KeyTable, NO_HOLDER, NO_ROW, type TubeKey } from "./key-table.ts";

/** A job's claim to its key, according to the log. */
interface Claim {
  readonly id: number;
  /** The id of the key's own record, or 0. */
  readonly record: number;
  readonly holds: boolean;
  readonly untilMs: number;
  /** Whether the claim is inferred, because an older server wrote the record. */
  readonly isGuess: boolean;
}

/** The key is in the record of its job, not in one of its own. */
const NO_RECORD = 0;

export class UniqueKeys {
  readonly table: KeyTable;
  readonly #shard: ShardState;
  /**
   * Records of keys that lost to another claim, or to a later time in the record of their job. They
   * are deleted once the log accepts records, and has that of the job.
   */
  readonly #orphans: number[] = [];
  /** Rows whose claim is inferred; used while the log is read. */
  readonly #guessed = new Set<number>();
  readonly #scratch = new Uint8Array(attribute.ATTRIBUTE_BYTES_MAX);
  readonly #key: { -readonly [Field in keyof TubeKey]: TubeKey[Field] } = {
    tube: this.#scratch,
    bytes: this.#scratch,
    start: 0,
    end: 0,
  };

  /** `seed` is the seed of the hash of keys. */
  constructor(shard: ShardState, seed: readonly [number, number]) {
    this.#shard = shard;
    this.table = new KeyTable(shard.bodies, seed, KEYS_MAX, shard.rareDeadlines);
  }

  /** Returns the row of the key that a put asks for, or NO_ROW, after which `begin` may follow. */
  rowFor(tube: Tube, attributes: JobAttributes): number {
    return this.table.find(this.#keyOf(tube.nameBytes, attributes));
  }

  /** Returns the job in whose tube the key of this row is, or NO_SLOT if that job is gone. */
  jobWith(keyRow: number): number {
    const slot = this.#shard.find(this.table.idOf(keyRow));
    if (slot === NO_SLOT) return NO_SLOT;
    return this.#shard.jobs.pageOf(slot).extras?.keyRow[rowOf(slot)] === keyRow ? slot : NO_SLOT;
  }

  /** Returns the key in the attributes; valid until the next call. */
  #keyOf(tube: Uint8Array, { fixed, keyStart, keyEnd }: JobAttributes): TubeKey {
    const key = this.#key;
    key.tube = tube;
    key.bytes = fixed.bytes;
    key.start = keyStart;
    key.end = keyEnd;
    return key;
  }

  /** Assigns the key that `rowFor` has just not found to a new job. */
  begin(slot: number, { uniqueUntilMs }: JobAttributes): void {
    const page = this.#shard.jobs.pageOf(slot);
    const row = rowOf(slot);
    assert(page.extras !== undefined && page.extras.keyRow[row] === NO_ROW, "a new job has no key yet");
    page.extras.keyRow[row] = this.table.addAsked(slot, page.id[row]!, uniqueUntilMs);
  }

  /**
   * Handles the key of a job that is about to be removed: the key is forgotten, or remembered,
   * which is logged in place of the job's deletion. Returns whether it was logged.
   */
  end(slot: number, nowMs: number): boolean {
    const { extras } = this.#shard.jobs.pageOf(slot);
    this.letGo(slot, nowMs);
    const keyRow = extras?.keyRow[rowOf(slot)] ?? NO_ROW;
    if (keyRow === NO_ROW) return false;
    const isLogged = this.table.recordOf(keyRow) > 0;
    if (!isLogged) this.#shard.records?.remembered(slot);
    if (CHECKED)
      assert(
        this.table.idOf(keyRow) === this.#shard.jobs.pageOf(slot).id[rowOf(slot)],
        "a job has its own key",
      );
    extras!.keyRow[rowOf(slot)] = NO_ROW;
    return !isLogged;
  }

  /** Ends the hold of a job that dies or ends: its key is remembered, or free if that is over. */
  letGo(slot: number, nowMs: number): void {
    const keyRow = this.#shard.jobs.pageOf(slot).extras?.keyRow[rowOf(slot)] ?? NO_ROW;
    if (keyRow === NO_ROW) return;
    if (this.table.untilOf(keyRow) <= nowMs) this.drop(slot);
    else if (this.table.slotOf(keyRow) !== NO_HOLDER) this.table.letGo(keyRow);
  }

  // --- jobs that leave their tube -------------------------------------------------------------

  /** Leaves the key of a job, which is still in its tube, behind there. */
  leave(slot: number, nowMs: number): void {
    this.depart(slot, nowMs);
    this.departed(slot, nowMs);
  }

  /**
   * Logs the key that a job will leave behind in its tube, before any record of the job's arrival.
   * The job keeps the key until then. If the log is full or memory is exhausted, it leaves none.
   * The record stays until the key is forgotten, even if the job returns.
   */
  depart(slot: number, nowMs: number): void {
    const keyRow = this.#shard.jobs.pageOf(slot).extras?.keyRow[rowOf(slot)] ?? NO_ROW;
    const { records } = this.#shard;
    if (keyRow === NO_ROW || this.table.untilOf(keyRow) <= nowMs || records === undefined) return;
    if (this.table.recordOf(keyRow) > 0) return;
    try {
      this.table.makeRecord(keyRow);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      return;
    }
    this.table.setRecord(keyRow, records.left(slot));
  }

  /** Separates the key from a job that has departed. */
  departed(slot: number, nowMs: number): void {
    const { extras } = this.#shard.jobs.pageOf(slot);
    const keyRow = extras?.keyRow[rowOf(slot)] ?? NO_ROW;
    if (keyRow === NO_ROW) return;
    const isLogged = this.#shard.records === undefined || this.table.recordOf(keyRow) > 0;
    if (!isLogged || this.table.untilOf(keyRow) <= nowMs) {
      this.drop(slot);
      return;
    }
    if (this.table.slotOf(keyRow) !== NO_HOLDER) this.table.letGo(keyRow);
    extras!.keyRow[rowOf(slot)] = NO_ROW;
  }

  /** Sets the time until which the key of a job is remembered, as the job's next PUT states. */
  lastUntil(slot: number, untilMs: number): void {
    const keyRow = this.#shard.jobs.pageOf(slot).extras?.keyRow[rowOf(slot)] ?? NO_ROW;
    assert(keyRow !== NO_ROW, "a job that is replaced has its key");
    this.table.lastUntil(keyRow, untilMs);
    const record = this.table.recordOf(keyRow);
    if (record === 0) return;
    this.table.setRecord(keyRow, 0);
    this.#disown(record);
  }

  /** Removes a job's key, even if it would be remembered. */
  drop(slot: number): void {
    const { extras } = this.#shard.jobs.pageOf(slot);
    const keyRow = extras?.keyRow[rowOf(slot)] ?? NO_ROW;
    if (keyRow === NO_ROW) return;
    if (CHECKED)
      assert(
        this.table.idOf(keyRow) === this.#shard.jobs.pageOf(slot).id[rowOf(slot)],
        "a job drops its own key",
      );
    const record = this.table.recordOf(keyRow);
    if (record > 0) this.#shard.records?.deleted(record);
    this.table.remove(keyRow);
    extras!.keyRow[rowOf(slot)] = NO_ROW;
  }

  /**
   * Handles a reservation. If the job's key lasts only until then, frees and logs it: another put
   * may use it from now on.
   */
  reserved(slot: number, nowMs: number): void {
    const { extras } = this.#shard.jobs.pageOf(slot);
    assert(extras !== undefined, "only a job with extras may have a key");
    const row = rowOf(slot);
    const keyRow = extras.keyRow[row]!;
    if ((extras.flags[row]! & ExtraFlag.UntilReserve) === 0 || keyRow === NO_ROW) return;
    if (this.table.slotOf(keyRow) === NO_HOLDER) return;
    assert(this.table.slotOf(keyRow) === slot, "a job that is reserved holds its own key");
    if (this.table.untilOf(keyRow) <= nowMs) this.drop(slot);
    else this.table.letGo(keyRow);
    this.#shard.records?.updated(slot);
  }

  /**
   * Gives a job the key that it was put with, if that is free, or remembered after this very job.
   */
  take(slot: number, tube: Tube): void {
    const page = this.#shard.jobs.pageOf(slot);
    const row = rowOf(slot);
    const { extras } = page;
    assert(extras !== undefined, "a job that was put with a key has extras");
    if ((extras.flags[row]! & ExtraFlag.Keyed) === 0) return;
    if ((extras.flags[row]! & ExtraFlag.UntilReserve) !== 0 && page.count(row, JobCounter.reserves) > 0)
      return;
    const key = this.#ownKey(extras, row, tube);
    const known = this.table.find(key);
    if (known !== NO_ROW) {
      if (this.table.slotOf(known) !== NO_HOLDER || this.table.idOf(known) !== page.id[row]) return;
      this.table.hold(known, slot, page.id[row]!);
      extras.keyRow[row] = known;
      return;
    }
    if (this.table.isFull) return;
    try {
      extras.keyRow[row] = this.table.add(key, slot, page.id[row]!, 0);
    } catch (error) {
      // Without memory for the key, the job continues without it.
      if (!(error instanceof RangeError)) throw error;
    }
  }

  /** Returns the key that a job was put with. */
  #ownKey(extras: JobExtras, row: number, tube: Tube): TubeKey {
    const length = extras.attributeBytes[row]!;
    this.#shard.bodies.read(extras.attributes[row]!, 0, this.#scratch, 0, length);
    const key = this.#key;
    key.tube = tube.nameBytes;
    key.bytes = this.#scratch;
    key.start = attribute.findAttribute(key.bytes, 0, length, attribute.Attribute.UniqueKey);
    assert(key.start > 0, "a job that was put with a key knows it");
    key.end = key.start + key.bytes[key.start - 1]!;
    return key;
  }

  // --- time -----------------------------------------------------------------------------------

  /** Forgets one key that is due; returns false if none is. */
  runOne(nowMs: number): boolean {
    const { jobs, records } = this.#shard;
    const orphan = this.#orphans.pop();
    if (orphan !== undefined) {
      records?.deleted(orphan);
      this.table.overdue = this.#orphans.length > 0;
      return true;
    }
    if (this.table.nextAtMs > nowMs) return false;
    const row = this.table.next;
    assert(row !== NO_ROW, "a due time has a key");
    const id = this.table.idOf(row);
    const record = this.table.recordOf(row);
    const slot = this.jobWith(row);
    this.table.remove(row);
    if (slot !== NO_SLOT) jobs.pageOf(slot).extras!.keyRow[rowOf(slot)] = NO_ROW;
    if (record > 0) records?.deleted(record);
    else if (slot === NO_SLOT) {
      if (CHECKED && records !== undefined)
        assert(this.#shard.find(id) === NO_SLOT, "a key without a record of its own is that of its job");
      records?.deleted(id);
    }
    return true;
  }

  // --- the log --------------------------------------------------------------------------------

  /** Writes the key's state, which every record of a job that was put with a key contains. */
  write(extras: JobExtras, row: number, writer: AttributeWriter): void {
    if ((extras.flags[row]! & ExtraFlag.Keyed) === 0) return;
    writer.uint8(attribute.Attribute.Key, this.#stateOf(extras.keyRow[row]!));
  }

  #stateOf(keyRow: number): KeyState {
    if (keyRow === NO_ROW) return KeyState.Lost;
    const isHeld = this.table.slotOf(keyRow) !== NO_HOLDER;
    // A record of its own states the time of the key.
    if (this.table.recordOf(keyRow) > 0) return isHeld ? KeyState.Held : KeyState.Lost;
    if (!isHeld) return KeyState.Remembered;
    return this.table.untilOf(keyRow) > 0 ? KeyState.HeldFor : KeyState.Held;
  }

  /** Returns the time until which the key of a job is remembered; 0 if it ends with the job. */
  untilOf(extras: JobExtras, row: number): number {
    const keyRow = extras.keyRow[row]!;
    assert(
      keyRow === NO_ROW || (extras.flags[row]! & ExtraFlag.Keyed) !== 0,
      "only a job that got a key has one",
    );
    return keyRow === NO_ROW ? 0 : this.table.untilOf(keyRow);
  }

  /** Restores the key of a job from the log. */
  restore(slot: number, tube: Tube, attributes: JobAttributes): void {
    if (!attributes.hasKey) return;
    const page = this.#shard.jobs.pageOf(slot);
    const row = rowOf(slot);
    const claim = claimOf(attributes, page.id[row]!, page.count(row, JobCounter.reserves));
    if (claim === undefined) return;
    const keyRow = this.#settle(this.#keyOf(tube.nameBytes, attributes), claim, slot);
    if (keyRow !== NO_ROW) page.extras!.keyRow[row] = keyRow;
  }

  /** Restores a key from the log whose job is gone, or has left the tube. */
  restoreRemembered(tube: Uint8Array, id: number, attributes: JobAttributes): void {
    const { keyJob, uniqueUntilMs: untilMs } = attributes;
    const names = keyJob === 0 ? { id, record: NO_RECORD } : { id: keyJob, record: id };
    const claim = { ...names, holds: false, untilMs, isGuess: false };
    const key = this.#keyOf(tube, attributes);
    if (!attributes.hasKey || this.#settle(key, claim, NO_HOLDER) === NO_ROW) this.#disown(id);
  }

  /** Ends the restore after all claims in the log are read. */
  endRestore(): void {
    this.#guessed.clear();
  }

  /** Resolves a claim to a key. Returns the key's row, or NO_ROW if another job keeps the key. */
  #settle(key: TubeKey, claim: Claim, slot: number): number {
    const known = this.table.find(key);
    if (known !== NO_ROW) {
      if (this.#joins(claim, known, slot)) return known;
      if (!isStronger(claim, this.#claimAt(known))) return NO_ROW;
      this.#lose(known);
    }
    const row = this.table.add(key, claim.holds ? slot : NO_HOLDER, claim.id, claim.untilMs);
    this.#setRecord(row, claim.record);
    if (claim.isGuess) this.#guessed.add(row);
    return row;
  }

  /** Unites the hold of a job with the key's own record, which states the time, if both exist. */
  #joins(claim: Claim, row: number, slot: number): boolean {
    const known = this.#claimAt(row);
    if (claim.id !== known.id || claim.holds === known.holds) return false;
    const [held, remembered] = claim.holds ? [claim, known] : [known, claim];
    if (held.untilMs > 0 || remembered.record === 0) return false;
    if (claim.holds) this.table.hold(row, slot, claim.id);
    else {
      this.table.lastUntil(row, claim.untilMs);
      this.#setRecord(row, claim.record);
    }
    return true;
  }

  #setRecord(row: number, record: number): void {
    if (record > 0) this.table.makeRecord(row);
    this.table.setRecord(row, record);
  }

  #claimAt(row: number): Claim {
    const { table } = this;
    return {
      id: table.idOf(row),
      record: table.recordOf(row),
      holds: table.slotOf(row) !== NO_HOLDER,
      untilMs: table.untilOf(row),
      isGuess: this.#guessed.has(row),
    };
  }

  /** Takes the key of this row from its job, because another job gets it. */
  #lose(row: number): void {
    const id = this.table.idOf(row);
    const record = this.table.recordOf(row);
    const slot = this.#shard.find(id);
    this.table.remove(row);
    this.#guessed.delete(row);
    if (record > 0) this.#disown(record);
    else if (slot === NO_SLOT) this.#disown(id);
    else this.#shard.jobs.pageOf(slot).extras!.keyRow[rowOf(slot)] = NO_ROW;
  }

  #disown(id: number): void {
    assert(id > 0, "a key that is lost has the id of a job");
    this.#orphans.push(id);
    this.table.overdue = true;
  }
}

/** Returns a job's claim to its key according to the log; undefined for none. */
function claimOf(attributes: JobAttributes, id: number, reserves: number): Claim | undefined {
  const { keyState, uniqueUntilMs } = attributes;
  if (keyState === undefined) return guessOf(attributes, id, reserves);
  const holds = keyState === KeyState.Held || keyState === KeyState.HeldFor;
  const untilMs = keyState === KeyState.HeldFor || keyState === KeyState.Remembered ? uniqueUntilMs : 0;
  return holds || untilMs > 0 ? { id, record: NO_RECORD, holds, untilMs, isGuess: false } : undefined;
}

/** Does the same for a record of an older server. */
function guessOf(attributes: JobAttributes, id: number, reserves: number): Claim | undefined {
  const { reason, untilReserve, moved, uniqueUntilMs } = attributes;
  if (reason !== DeathReason.None) return undefined;
  const holds = !(untilReserve && reserves > 0);
  const untilMs = moved ? 0 : uniqueUntilMs;
  return holds || untilMs > 0 ? { id, record: NO_RECORD, holds, untilMs, isGuess: true } : undefined;
}

/**
 * Returns whether one claim to a key beats another. In logs of this version, two claims occur only
 * after a salvage, or if the server ended while a job left the tube of its key or was replaced:
 * then the job's own record counts. A logged claim beats an inferred one, a holder beats a
 * remembered key, and a later time beats an earlier one; among holders the smaller id wins.
 */
function isStronger(claim: Claim, known: Claim): boolean {
  if (claim.isGuess !== known.isGuess) return known.isGuess;
  if (claim.holds !== known.holds) return claim.holds;
  if (!claim.holds && claim.untilMs !== known.untilMs) return claim.untilMs > known.untilMs;
  return claim.id === known.id ? claim.record < known.record : claim.id < known.id;
}
