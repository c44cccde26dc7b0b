// Creates a log from a dump, in a directory without one.

import { segmentName } from "../../base/segment-name.ts";
import { emptyLog } from "../books/log-state.ts";
import { forgetStarts } from "../disk/starts-file.ts";
import { Storage } from "../live/storage.ts";
import { appendBatch, appendSetting } from "../live/whole-job.ts";
import type { OpenOptions } from "../recovery/open-options.ts";
import { segmentNumbers } from "../recovery/scan-log.ts";
import { readDump, restoreJob } from "./dump.ts";

/**
 * Writes the jobs of a dump into the empty directory of `open` and returns their number. The first
 * file is number 2. Until the last job is durable and a DROP states that number 1 does not count,
 * servers refuse the log for its missing file. If this throws, it leaves nothing behind.
 */
export async function restoreLog(open: OpenOptions, lines: AsyncIterable<string>): Promise<number> {
  const { disk } = open;
  forgetStarts(disk);
  const first = 2;
  const storage = new Storage({ ...open, log: emptyLog(first, 0, 0, 1) });
  const check = (): void => {
    if (storage.failure !== undefined) throw storage.failure;
  };
  try {
    for await (const part of readDump(lines)) {
      if (typeof part === "number") storage.index.maxId = part - 1;
      else if ("setting" in part) appendSetting(storage, part.setting, part.text);
      else if ("facts" in part) appendBatch(storage, part);
      else restoreJob(storage, part.job, part.body);
      check();
    }
    storage.dropBelow(first, 0);
    storage.close(0, true);
    check();
    return storage.index.jobs;
  } catch (error) {
    for (const number of segmentNumbers(disk).reverse()) disk.unlink(segmentName(number));
    disk.syncFolder();
    throw error;
  }
}
