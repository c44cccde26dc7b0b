// Turns changes of schedules into records: message/schedule-record.ts.

import { assert } from "../../base/assert.ts";
import { asciiBytes } from "../../base/bytes.ts";
import { Memory } from "../../base/memory.ts";
import type { BodyArena } from "../../engine/jobs/body-arena.ts";
import type { Schedule, ScheduleFacts } from "../../engine/schedules/schedule.ts";
import type { ScheduleSink } from "../../engine/schedules/schedules.ts";
import {
  DELETE_BYTES,
  emptyRecordFields,
  encodeDelete,
  encodeLongUpdate,
  encodePutHead,
  RECORD_FIXED_BYTES,
  type RecordFields,
  RecordState,
  UPDATE_BYTES,
} from "../../message/record.ts";
import { SCHEDULE_HEAD_BYTES_MAX, writeProgress, writeSchedule } from "../../message/schedule-record.ts";
import {
  ATTRIBUTE_BYTES_MAX,
  ATTRIBUTE_UNIT,
  type Attribute,
  AttributeWriter,
} from "../../protocol/job-attribute.ts";

interface ScheduleLogOptions {
  readonly memory: Memory;
  readonly recordBytesMax: () => number;
  /** Claims room for a record, as RecordLog does. */
  readonly claim: (recordBytes: number) => number;
  readonly hasRoom: () => boolean;
  /** Waits until the log has lent a new id; returns false if it has no room. */
  readonly isLent: (id: number) => boolean;
  readonly bodies: () => BodyArena;
}

const NO_NAME = new Uint8Array(0);

export class ScheduleLog implements ScheduleSink {
  readonly #options: ScheduleLogOptions;
  readonly #fields: RecordFields = emptyRecordFields();
  readonly #writer = new AttributeWriter(Memory.ofSize(ATTRIBUTE_BYTES_MAX));

  constructor(options: ScheduleLogOptions) {
    this.#options = options;
  }

  /** Returns whether a schedule with a body of this size fits into one record. */
  fits({ name, tube, timing, attributes }: ScheduleFacts, bodyBytes: number): boolean {
    const textBytes = name.length + tube.length + timing.cron.length + timing.zone.length + attributes.length;
    const headBytes = RECORD_FIXED_BYTES + SCHEDULE_HEAD_BYTES_MAX + ATTRIBUTE_UNIT;
    return headBytes + textBytes + bodyBytes <= this.#options.recordBytesMax();
  }

  scheduled(schedule: Schedule, isNew: boolean): boolean {
    const { memory, claim, hasRoom, isLent, bodies } = this.#options;
    // An old id must not be compared with the ids that are lent now.
    if (!hasRoom() || (isNew && !isLent(schedule.id))) return false;
    const tube = asciiBytes(schedule.facts.tube);
    const attributes = this.#attributes(schedule, true);
    const { body, bodyBytes } = schedule;
    const at = claim(RECORD_FIXED_BYTES + tube.length + attributes.length + bodyBytes);
    const bodyAt = encodePutHead(memory, at, this.#fill(schedule), tube, bodyBytes, attributes);
    assert(bodyAt + bodyBytes <= memory.bytes.length, "the record of a schedule ends in its ring");
    bodies().read(body, 0, memory.bytes, bodyAt, bodyBytes);
    return true;
  }

  ticked(schedule: Schedule): void {
    assert(schedule.id > 0, "a schedule with a tick has an id");
    const { memory, claim } = this.#options;
    const attributes = this.#attributes(schedule, false);
    const at = claim(UPDATE_BYTES + attributes.length);
    encodeLongUpdate(memory, at, this.#fill(schedule), NO_NAME, attributes);
  }

  unscheduled(id: number): void {
    const { memory, claim } = this.#options;
    assert(id > 0, "a schedule has an id");
    encodeDelete(memory.view, claim(DELETE_BYTES), id);
  }

  #fill({ id, facts, nextMs }: Schedule): RecordFields {
    assert(nextMs > 0, "a schedule has a next time or none");
    const fields = this.#fields;
    fields.id = id;
    fields.state = RecordState.schedule;
    fields.pri = facts.pri;
    fields.delaySeconds = facts.delaySeconds;
    fields.ttrSeconds = facts.ttrSeconds;
    fields.deadlineAtMs = nextMs === Number.POSITIVE_INFINITY ? 0 : nextMs;
    return fields;
  }

  /** Returns the attributes, padded, valid until the next call. */
  #attributes(schedule: Schedule, fixed: boolean): Uint8Array {
    const writer = this.#writer;
    writer.clear();
    const { facts, name } = schedule;
    if (fixed) {
      const { missed, ttlMs, delayMillis, timing, attributes } = facts;
      writeSchedule(writer, { name, missed, ttlMs, delayMillis, ...timing });
      for (let at = 0; at + 2 <= attributes.length; at += 2 + attributes[at + 1]!)
        writer.text(attributes[at] as Attribute, attributes, at + 2, at + 2 + attributes[at + 1]!);
    }
    writeProgress(writer, schedule);
    return writer.bytes.subarray(0, writer.pad());
  }
}
