// `list-schedules` over several shards, merged by name.

import { OptionTag } from "../../../protocol/option-rows.ts";
import { optionNumber } from "../../../protocol/options.ts";
import type { Request } from "../../../protocol/request.ts";
import { mergedSchedules, type SchedulePage, scheduleListText } from "../../../protocol/schedule-list.ts";
import { SCHEDULE_LIST_USUAL } from "../../../protocol/schedule-options.ts";
import type { JobPlaces } from "../../state/job-places.ts";
import type { SerialQueue } from "../../state/serial-queue.ts";
import type { ConversationHost } from "../conversation-host.ts";
import { GatheredList } from "./gathered-list.ts";

export class ListSchedules extends GatheredList {
  readonly #limit: number;

  constructor(host: ConversationHost, places: JobPlaces, request: Request, queue: SerialQueue) {
    super(host, places, request, queue);
    this.#limit = optionNumber(request.options, OptionTag.Limit) ?? SCHEDULE_LIST_USUAL;
  }

  protected moves({ scheduleMoves }: JobPlaces): number {
    return scheduleMoves;
  }

  protected merge(parts: readonly Buffer[]): string {
    const pages = parts.map((part) => JSON.parse(part.toString("latin1")) as SchedulePage);
    return scheduleListText(mergedSchedules(pages, this.#limit));
  }
}
