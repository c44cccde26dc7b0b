// The arena's part of a job besides its body: the attributes that it was put with, and the tube in
// which a dead job died. Also writes both, and all other extras, for the log.

import { assert } from "../../base/assert.ts";
import { latin1 } from "../../base/bytes.ts";
import { Memory } from "../../base/memory.ts";
import * as attribute from "../../protocol/job-attribute.ts";
import { type Attribute, type AttributeWriter, DeathReason } from "../../protocol/job-attribute.ts";
import { EMPTY_BODY } from "../jobs/body-arena.ts";
import { ENDS } from "../jobs/ends.ts";
import type { JobAttributes } from "../jobs/job-attributes.ts";
import { ExtraFlag, type JobExtras } from "../jobs/job-extras.ts";
import { FlowFlag, type JobFlows } from "../jobs/job-flows.ts";
import { type JobPage, JobState, rowOf } from "../jobs/job-table.ts";
import type { ShardState } from "../state/shard-state.ts";
import type { Failures } from "./failures.ts";
import type { UniqueKeys } from "./unique-keys.ts";

const NO_BYTES: Uint8Array = new Uint8Array(0);
const GROUP: number = attribute.Attribute.Group;
const WEIGHT: number = attribute.Attribute.Weight;
/** Immutable attributes that a put gives to a job that it replaces. */
const CARRIED: ReadonlySet<number> = new Set([
  attribute.Attribute.UntilReserve,
  attribute.Attribute.Weight,
  attribute.Attribute.Meta,
]);

export class StoredAttributes {
  readonly #shard: ShardState;
  readonly #keys: UniqueKeys;
  readonly #failures: Failures;
  readonly #scratch = new Uint8Array(attribute.ATTRIBUTE_BYTES_MAX);
  readonly #merged = new attribute.AttributeWriter(Memory.ofSize(2 * attribute.ATTRIBUTE_BYTES_MAX));

  constructor(shard: ShardState, keys: UniqueKeys, failures: Failures) {
    this.#shard = shard;
    this.#keys = keys;
    this.#failures = failures;
  }

  /** Stores what a put, another shard or the log says about a job; its row has no extras yet. */
  keep(extras: JobExtras, row: number, attributes: JobAttributes): void {
    const { bodies } = this.#shard;
    const { fixed, origin } = attributes;
    assert(
      extras.attributes[row] === EMPTY_BODY && extras.flags[row] === 0,
      "a job gets its attributes once",
    );
    if (fixed.length > 0) {
      extras.attributes[row] = bodies.allocate(fixed.length);
      extras.attributeBytes[row] = fixed.length;
      bodies.write(extras.attributes[row]!, 0, fixed.bytes, 0, fixed.length);
    }
    if (origin.length > 0) this.setOrigin(extras, row, origin);
    assert(origin.length <= 0xff, "the length of an origin fits into its column");
    extras.expiresAtMs[row] = attributes.expiresAtMs;
    extras.attemptsBase[row] = attributes.attemptsBase;
    extras.flags[row] =
      attributes.reason |
      (attributes.moved ? ExtraFlag.Moved : 0) |
      (attributes.untilReserve ? ExtraFlag.UntilReserve : 0) |
      (attributes.hasKey ? ExtraFlag.Keyed : 0);
  }

  /** Stores a job's batches. Throws RangeError when memory is exhausted. */
  keepFlows(page: JobPage, row: number, attributes: JobAttributes): void {
    const flows = this.#shard.jobs.makeFlows(page);
    assert(flows.batch[row] === 0 && flows.after[row] === 0, "a job gets its batches once");
    flows.batch[row] = attributes.batch;
    flows.after[row] = attributes.after;
    flows.flags[row] =
      (attributes.batchHasEnded ? FlowFlag.Ended : 0) |
      (attributes.batchIsSpared ? FlowFlag.Spared : 0) |
      (attributes.afterAny ? FlowFlag.Any : 0);
  }

  /**
   * Returns the immutable attributes of a job after a put has replaced it: what the put names, and
   * the rest of the job's own. Valid until the next call.
   */
  mergedWith(slot: number, { fixed }: JobAttributes): Uint8Array {
    const writer = this.#merged;
    writer.clear();
    const own = this.fixedAttributes(slot);
    const names = (tag: number): boolean => attribute.findAttribute(fixed.bytes, 0, fixed.length, tag) >= 0;
    // A group without a weight has weight 1.
    const named = (tag: number): boolean => names(tag) || (tag === WEIGHT && names(GROUP));
    for (let at = 0; at + 2 <= own.length; at += 2 + own[at + 1]!)
      if (!CARRIED.has(own[at]!) || !named(own[at]!))
        writer.text(own[at] as Attribute, own, at + 2, at + 2 + own[at + 1]!);
    for (let at = 0; at + 2 <= fixed.length; at += 2 + fixed.bytes[at + 1]!)
      if (CARRIED.has(fixed.bytes[at]!))
        writer.text(fixed.bytes[at] as Attribute, fixed.bytes, at + 2, at + 2 + fixed.bytes[at + 1]!);
    return writer.bytes.subarray(0, writer.length);
  }

  /** Stores immutable attributes for `exchange`. Throws RangeError when memory is exhausted. */
  store(bytes: Uint8Array): number {
    assert(bytes.length <= attribute.ATTRIBUTE_BYTES_MAX, "the attributes of a job are limited");
    if (bytes.length === 0) return EMPTY_BODY;
    const cell = this.#shard.bodies.allocate(bytes.length);
    this.#shard.bodies.write(cell, 0, bytes, 0, bytes.length);
    return cell;
  }

  /** Gives a job other immutable attributes, which are stored already. */
  exchange(extras: JobExtras, row: number, cell: number, length: number, untilReserve: boolean): void {
    this.#shard.bodies.free(extras.attributes[row]!);
    extras.attributes[row] = cell;
    extras.attributeBytes[row] = length;
    if (untilReserve) extras.flags[row]! |= ExtraFlag.UntilReserve;
  }

  /** Frees everything that a job has in the arena besides its body. */
  free(extras: JobExtras, row: number): void {
    this.#shard.bodies.free(extras.attributes[row]!);
    this.#shard.bodies.free(extras.origin[row]!);
  }

  /** Remembers the name of the tube in which a job died. */
  setOrigin(extras: JobExtras, row: number, origin: Uint8Array): void {
    const { bodies } = this.#shard;
    assert(origin.length > 0 && origin.length <= 0xff, "a tube has a name");
    bodies.free(extras.origin[row]!);
    extras.origin[row] = EMPTY_BODY;
    extras.origin[row] = bodies.allocate(origin.length);
    extras.originBytes[row] = origin.length;
    bodies.write(extras.origin[row]!, 0, origin, 0, origin.length);
  }

  forgetOrigin(extras: JobExtras, row: number): void {
    this.#shard.bodies.free(extras.origin[row]!);
    extras.origin[row] = EMPTY_BODY;
    extras.originBytes[row] = 0;
  }

  /** Returns the tube in which a job died, or "". */
  originOf(slot: number): string {
    const { extras } = this.#shard.jobs.pageOf(slot);
    const row = rowOf(slot);
    const bytes = extras?.originBytes[row] ?? 0;
    if (bytes === 0) return "";
    assert(extras!.origin[row] !== EMPTY_BODY, "the name of a tube is in the arena");
    const name = new Uint8Array(bytes);
    this.#shard.bodies.read(extras!.origin[row]!, 0, name, 0, bytes);
    return String.fromCharCode(...name);
  }

  /** Returns the immutable attributes of a job, without times. Valid until the next call. */
  fixedOf(extras: JobExtras, row: number): Uint8Array {
    const length = extras.attributeBytes[row]!;
    assert(length <= this.#scratch.length, "attributes fit into the scratch space");
    this.#shard.bodies.read(extras.attributes[row]!, 0, this.#scratch, 0, length);
    return this.#scratch.subarray(0, length);
  }

  /** Does the same for any job; empty for a job without attributes. */
  fixedAttributes(slot: number): Uint8Array {
    const { extras } = this.#shard.jobs.pageOf(slot);
    if (extras === undefined || extras.attributeBytes[rowOf(slot)] === 0) return NO_BYTES;
    return this.fixedOf(extras, rowOf(slot));
  }

  // --- for the log ----------------------------------------------------------------------------

  /** Writes what only a PUT contains; `wallOffsetMs` is wall clock minus monotonic clock. */
  writeFixed(slot: number, writer: AttributeWriter, wallOffsetMs: number): void {
    const { extras } = this.#shard.jobs.pageOf(slot);
    const row = rowOf(slot);
    if (extras === undefined || extras.attributes[row] === EMPTY_BODY) return;
    const fixed = this.fixedOf(extras, row);
    for (let at = 0; at + 2 <= fixed.length; at += 2 + fixed[at + 1]!)
      writer.text(fixed[at] as Attribute, fixed, at + 2, at + 2 + fixed[at + 1]!);
    const untilMs = this.#keys.untilOf(extras, row);
    if (untilMs > 0) writer.float64(attribute.Attribute.UniqueUntil, untilMs + wallOffsetMs);
  }

  /** Writes the attributes that every UPDATE contains. */
  writeMutable(slot: number, writer: AttributeWriter, wallOffsetMs: number): void {
    const { extras, failures, state } = this.#shard.jobs.pageOf(slot);
    const row = rowOf(slot);
    if (extras !== undefined) this.#writeExtras(extras, row, writer, wallOffsetMs);
    // After a restart, a reserved job is ready: its reservation ended with the server.
    const excused = state[row] === JobState.Reserved && !ENDS.Stopped.isAttempt ? 1 : 0;
    const attemptsBase = (extras?.attemptsBase[row] ?? 0) + excused;
    if (attemptsBase > 0) writer.uint32(attribute.Attribute.AttemptsBase, attemptsBase);
    if (failures !== undefined) this.#failures.write(slot, writer, wallOffsetMs);
  }

  #writeExtras(extras: JobExtras, row: number, writer: AttributeWriter, wallOffsetMs: number): void {
    const { Attribute } = attribute;
    const flags = extras.flags[row]!;
    if ((flags & ExtraFlag.Moved) !== 0) writer.flag(Attribute.Moved);
    if ((flags & ExtraFlag.Leaving) !== 0) writer.flag(Attribute.Leaving);
    this.#keys.write(extras, row, writer);
    if (extras.expiresAtMs[row]! > 0)
      writer.float64(Attribute.ExpiresAt, extras.expiresAtMs[row]! + wallOffsetMs);
    const originBytes = extras.originBytes[row]!;
    if (originBytes > 0) {
      this.#shard.bodies.read(extras.origin[row]!, 0, this.#scratch, 0, originBytes);
      writer.text(Attribute.Origin, this.#scratch, 0, originBytes);
    }
    if ((flags & ExtraFlag.Reason) !== DeathReason.None)
      writer.uint8(Attribute.Reason, flags & ExtraFlag.Reason);
    if (extras.flows !== undefined) writeFlows(extras.flows, row, writer);
  }

  /** Returns whether an UPDATE of the job has to name its tube. */
  isMoved(slot: number): boolean {
    const { extras } = this.#shard.jobs.pageOf(slot);
    return extras !== undefined && (extras.flags[rowOf(slot)]! & ExtraFlag.Moved) !== 0;
  }
}

function writeFlows({ batch, after, flags }: JobFlows, row: number, writer: AttributeWriter): void {
  const { Attribute, BatchMark } = attribute;
  const flag = flags[row]!;
  const ended = (flag & FlowFlag.Ended) === 0 ? 0 : BatchMark.Ended;
  const spared = (flag & FlowFlag.Spared) === 0 ? 0 : BatchMark.Spared;
  if (batch[row] !== 0) writer.flagged(Attribute.Batch, batch[row]!, ended | spared);
  if (after[row] !== 0) writer.flagged(Attribute.After, after[row]!, Number((flag & FlowFlag.Any) !== 0));
}

/** Returns the value of a text attribute as Latin-1, or "". */
export function textAttribute(bytes: Uint8Array, end: number, tag: number): string {
  const at = attribute.findAttribute(bytes, 0, end, tag);
  return at < 0 ? "" : latin1(bytes, at, at + bytes[at - 1]!);
}
