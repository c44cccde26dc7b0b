// `list-jobs *` over several shards: each shard lists its jobs, and the lists are merged by id.
//
// The merged list ends at the lowest id at which a shard stopped. The next list starts after that
// id on all shards, so it repeats what the other shards listed beyond it. A job that exists all
// along is thus returned exactly once, whatever its shard.

import { asciiBytes, latin1 } from "../../../base/bytes.ts";
import { ListedJobsReader } from "../../../message/listed-jobs.ts";
import { ListPartView } from "../../../message/request.ts";
import { LIST_LIMIT_USUAL, LIST_TEXT_BYTES_MAX, listText } from "../../../protocol/job-options.ts";
import { OptionTag } from "../../../protocol/option-rows.ts";
import { optionNumber } from "../../../protocol/options.ts";
import type { Request } from "../../../protocol/request.ts";
import { EVERY_TUBE } from "../../../protocol/tube-name.ts";
import type { JobPlaces } from "../../state/job-places.ts";
import type { SerialQueue } from "../../state/serial-queue.ts";
import type { ConversationHost } from "../conversation-host.ts";
import { GatheredList } from "./gathered-list.ts";

const EVERY_TUBE_BYTES = asciiBytes(EVERY_TUBE);
/** Minimum bytes of text that a shard is asked for. */
const PART_BYTES_MIN = 8 * 1024;

export class ListAllJobs extends GatheredList {
  readonly #limit: number;

  constructor(host: ConversationHost, places: JobPlaces, request: Request, queue: SerialQueue) {
    super(host, places, request, queue);
    this.#limit = optionNumber(request.options, OptionTag.Limit) ?? LIST_LIMIT_USUAL;
  }

  protected override fill(message: Request, shards: number): void {
    message.tube.set(EVERY_TUBE_BYTES, 0, EVERY_TUBE_BYTES.length);
    // Together the shards do the work of two lists at most. They stop at about the same id if jobs
    // are spread evenly.
    ListPartView.limitText(message, Math.max(PART_BYTES_MIN, (2 * LIST_TEXT_BYTES_MAX) / shards));
  }

  protected moves({ jobMoves }: JobPlaces): number {
    return jobMoves;
  }

  protected merge(parts: readonly Buffer[]): string {
    return mergedList(
      parts.map((part) => new ListedJobsReader(part)),
      this.#limit,
    );
  }
}

/** Merges several lists into one of at most `limit` jobs. */
export function mergedList(lists: readonly ListedJobsReader[], limit: number): string {
  // Every shard has searched up to this id.
  const lastId = Math.min(...lists.map(({ next }) => (next === 0 ? Number.POSITIVE_INFINITY : next)));
  const lines: string[] = [];
  let bytes = 0;
  let listedId = 0;
  for (
    let list = firstOf(lists);
    list.id <= lastId && list.id < Number.POSITIVE_INFINITY;
    list = firstOf(lists)
  ) {
    const { id, line } = list;
    // A job that moved between shards in the meantime is on both lists.
    if (id > listedId) {
      if (lines.length === limit || (lines.length > 0 && bytes + line.length > LIST_TEXT_BYTES_MAX))
        return listText(listedId, lines);
      lines.push(latin1(line, 0, line.length));
      bytes += line.length;
      listedId = id;
    }
    list.shift();
  }
  return listText(lastId === Number.POSITIVE_INFINITY ? 0 : lastId, lines);
}

function firstOf(lists: readonly ListedJobsReader[]): ListedJobsReader {
  let first = lists[0]!;
  for (const list of lists) if (list.id < first.id) first = list;
  return first;
}
