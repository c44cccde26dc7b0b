// `finished-jobs`: lists the ends of jobs that a tube keeps, newest first.

import { assert } from "../../base/assert.ts";
import type { FinishedJob } from "../../engine/jobs/ends.ts";
import { LIST_LIMIT_USUAL, LIST_TEXT_BYTES_MAX, listText, OptionTag } from "../../protocol/option-rows.ts";
import { optionNumber } from "../../protocol/options.ts";
import { escaped } from "../sessions/job-text.ts";
import type { ShardCommand } from "./command.ts";

const TEXTS = ["worker", "unique", "group", "note", "reason"] as const;

/** Returns a line of the list: JSON. Times are in seconds ago, to the millisecond. */
function finishedRow(job: FinishedJob, nowMs: number): string {
  const ago = (atMs: number): number => Math.max(0, Math.floor(nowMs - atMs)) / 1000;
  const started = job.startedAtMs < 0 ? "" : `,"start":${ago(job.startedAtMs)}`;
  const texts = TEXTS.map((name) => (job[name] === "" ? "" : `,"${name}":"${escaped(job[name])}"`));
  return (
    `{"id":${job.id},"state":"${job.state}","put":${ago(job.putAtMs)}${started}` +
    `,"end":${ago(job.endedAtMs)},"attempts":${job.attempts}${texts.join("")}}`
  );
}

/** Cost of a line, in Engine.looks: a few microseconds. */
const LINE_LOOKS = 60;

export const finishedJobs: ShardCommand = ({ engine, replies, nowMs }, session, { tube, options }) => {
  engine.runDue(nowMs);
  const before = optionNumber(options, OptionTag.Before) ?? Number.POSITIVE_INFINITY;
  const limit = optionNumber(options, OptionTag.Limit) ?? LIST_LIMIT_USUAL;
  const lines: string[] = [];
  let bytes = 0;
  let last = before;
  let next = 0;
  for (const [number, job] of engine.policies.finished.ofTube(tube.text, before)) {
    const line = `- ${finishedRow(job, nowMs)}\n`;
    bytes += line.length;
    if (lines.length === limit || (lines.length > 0 && bytes > LIST_TEXT_BYTES_MAX)) {
      next = last;
      break;
    }
    lines.push(line);
    last = number;
  }
  assert(lines.length <= limit, "a page has no more jobs than were asked for");
  engine.looks += lines.length * LINE_LOOKS;
  // That a job has ended may not be in the log yet.
  replies.dependOnAll();
  replies.text(session, listText(next, lines));
};
