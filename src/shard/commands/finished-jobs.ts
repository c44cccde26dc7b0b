// `finished-jobs`: lists the ends of jobs that a tube keeps, newest first.

import { assert } from "../../base/assert.ts";
import { LIST_LIMIT_USUAL, LIST_TEXT_BYTES_MAX, listText, OptionTag } from "../../protocol/option-rows.ts";
import { optionNumber } from "../../protocol/options.ts";
import { finishedRow } from "../sessions/job-text.ts";
import type { ShardCommand } from "./command.ts";

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
