// Rare branches of src that the simulators must reach: where threads, failures and bounds meet.
//
// A simulator that no longer reaches such a branch still passes, and nobody learns that it has
// stopped looking there. `npm run proof:marks` fails then.

/** The simulators; "schedules" are two of them. */
export const SIMULATORS = ["server", "batches", "schedules", "log", "group"] as const;
export type Simulator = (typeof SIMULATORS)[number];

export interface Mark {
  readonly simulator: Simulator;
  /** What happens there. */
  readonly what: string;
  /** Text that stands once in src. The block with its last character must run. */
  readonly code: string;
}

const of = (simulator: Simulator, marks: readonly (readonly [string, string])[]): readonly Mark[] =>
  marks.map(([what, code]) => ({ simulator, what, code }));

export const MARKS: readonly Mark[] = [
  ...of("server", [
    ["a ring to a shard is full, and a command waits", "if (!replies.write(shard, last)) return false"],
    [
      "a batch delete asks another shard for what moved",
      "!this.#entries.has(place)) this.#toAsk.push(place)",
    ],
    ["a listed job was taken meanwhile", "state[rowOf(slot)] !== JobState.Ready)\n      return NO_SLOT"],
    [
      "a reserve is aborted before a shard claims it",
      "else if (this.#isAborted) this.#finish(Reply.aborted)",
    ],
    ["a claim overtakes the end of a wait", "if (!this.#host.claimWait(this.#waitNumber)) return"],
    ["the margin of a wait has passed when it is looked at", "keep waiting.\n      this.#stopWaits()"],
    [
      "a half-closed client still gets its replies",
      'this.#reason ??= "client";\n    const { reservesUnderWay',
    ],
    ["a put without its CR LF, after its first piece went", "last.flags = RequestFlag.BadBody"],
    ["a connection gets credit for what it has read", "const credit = this.message(RequestOp.Credit)"],
    ["a put into a full tube is undone", "return this.#undoPut(slot, tube, attributes)"],
    ["a batch is forgotten, and its number says so", "this.#forget(facts.number)"],
    ["a ready job is cancelled", "this.policies.endCancelled(slot, tube, NOBODY, nowMs, reason)"],
    ["a tick is refused by a bound of its tube", "schedule.refusals++"],
    ["a rate limiter of a forgotten tube is full again", "this.#mayRunDue()) retiredLimiters.forgetNext()"],
    ["a bucket of a group is full again", "this.#mayRunDue()) retiredBuckets.forgetNext()"],
    ["a group waits for tokens", "this.groupRateWaits += groups.waits"],
    ["a wide wait ends", "else this.#endWide(session)"],
    ["a held job is handed to another shard", "tube.handedJobs++"],
  ]),
  ...of("batches", [
    ["a swept batch loses a member that nobody holds", "discard(slot, ENDS.BatchCancelled, nowMs)"],
    [
      "a complete batch releases a job that waits for it",
      "left > 0 && batch.waiting.first !== NO_SLOT; left--)\n        this.#release(",
    ],
  ]),
  ...of("schedules", [
    [
      "a schedule moves between two answers to a search",
      "this.#places.scheduleMoves !== this.#moves) this.begin()",
    ],
    [
      "a schedule that was found is gone when its command arrives",
      "if (kind !== ResponseKind.Ack && kind !== ResponseKind.Absent) return;\n    if (this.#isSent) {\n      this.begin()",
    ],
    ["a tick is left out, because it is too late", "LATE_MS_MAX) {\n      this.#miss(schedule, 1)"],
    ["a tick of another shard has put the job already", "schedule.duplicates++"],
    ["a schedule is set back by a clock that was ahead", "Math.max(schedule.heldMs, nextMs))"],
    ["a schedule asks other shards for its last job", "this.askOthers(schedule)"],
    ["a restored tick finds its job in the log", "schedule.fired++;\n      schedule.lastMs = nextMs"],
  ]),
  ...of("log", [
    ["a tail is cut at a bad record", "scan.lastNonZero + 1 - scan.at"],
    ["a segment was created, but never used", "return this.#unused || (!this.#sealed"],
    ["the header of a segment is incomplete", "its header is incomplete ("],
  ]),
  ...of("group", [
    ["a standby cuts what was never acknowledged", "this.#host.cutAfter(n)"],
    ["the log shows less than was read", ", but this node has read "],
    ["another message comes before that of a leader", "expectedLast + 1) {\n      this.doubt(nowMs)"],
    ["a leader learns that another epoch began", 'place.epoch !== this.#epoch) return this.#end("lost-lead"'],
  ]),
];
