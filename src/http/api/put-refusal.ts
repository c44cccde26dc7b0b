// What a reply that refuses a put means over HTTP.

import { ControlWord } from "../../message/topology.ts";
import type { Service } from "../queue/service.ts";
import { Problem } from "./problem.ts";

export function refused(reply: string, { words, topology }: Service): Problem {
  if (reply === "DRAINING") return new Problem("draining", "The server takes no new jobs; ask another one.");
  if (reply === "JOB_TOO_BIG")
    return new Problem("job-too-big", `Jobs have at most ${topology.jobBytesMax} bytes.`);
  if (reply === "TUBE_FULL")
    return new Problem("tube-full", "It has as many jobs, or bytes of them, as its settings allow.");
  if (reply !== "OUT_OF_MEMORY") return new Problem("internal", `The put was refused: ${reply}.`);
  return words.isSet(ControlWord.BinlogFull)
    ? new Problem("disk-full", "The disk of the log is full; free some room there.")
    : new Problem("out-of-memory", "The server has no memory for new jobs.");
}
