// Maps a reply that refuses a put to a Problem.

import { ControlWord } from "../../../message/topology.ts";
import type { Service } from "../../queue/service.ts";
import { Problem } from "../problem.ts";

export function refused(reply: string, { words, memory, topology }: Service): Problem {
  if (reply === "DRAINING")
    return new Problem("draining", "The server accepts no new jobs; use another one.");
  if (reply === "JOB_TOO_BIG")
    return new Problem("job-too-big", `A job can have at most ${topology.jobBytesMax} bytes.`);
  if (reply === "TUBE_FULL")
    return new Problem("tube-full", "The tube has as many jobs or bytes as its settings allow.");
  if (reply === "BATCH_NOT_FOUND")
    return new Problem("batch-not-found", "There is no such batch: POST /v1/batches opens one.");
  if (reply === "BATCH_COMMITTED")
    return new Problem("batch-state", "The batch takes no more members: it was committed or cancelled.");
  if (reply === "BATCH_ORDER")
    return new Problem("batch-state", "A member may only wait for a batch that was opened before its own.");
  if (reply !== "OUT_OF_MEMORY") return new Problem("internal", `The put was refused: ${reply}.`);
  if (words.isSet(ControlWord.SharedLogFull))
    return new Problem("shared-log-full", "The shared log of the group is nearly full; give it more room.");
  if (words.isSet(ControlWord.BinlogFull))
    return new Problem(
      "disk-full",
      "The log can't grow: its disk is full, or file descriptors have run out. Free some of either.",
    );
  return new Problem(
    "out-of-memory",
    memory.isFull
      ? "Jobs have all the memory that max-memory gives them: delete some, or raise the limit."
      : "The server has no memory for it, a shard has 20,000 schedules, or the server has 100,000 batches: end batches that stay open, and open new ones with a shorter keep.",
  );
}
