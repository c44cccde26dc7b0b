// `list-schedules` over several shards, merged by name.

import { OptionTag } from "../../../protocol/option-rows.ts";
import { optionNumber } from "../../../protocol/options.ts";
import type { Request } from "../../../protocol/request.ts";
import { mergedSchedules, type SchedulePage, scheduleListText } from "../../../protocol/schedule-list.ts";
import { SCHEDULE_LIST_USUAL } from "../../../protocol/schedule-options.ts";
import type { SerialQueue } from "../../state/serial-queue.ts";
import type { ConversationHost } from "../conversation-host.ts";
import { GatheredList } from "./gathered-list.ts";

export class ListSchedules extends GatheredList {
  readonly #limit: number;

  constructor(host: ConversationHost, shards: number, request: Request, queue: SerialQueue) {
    super(host, shards, request, queue);
    this.#limit = optionNumber(request.options, OptionTag.Limit) ?? SCHEDULE_LIST_USUAL;
  }

  protected merge(parts: readonly Buffer[]): string {
    const pages = parts.map((part) => JSON.parse(part.toString("latin1")) as SchedulePage);
    return scheduleListText(mergedSchedules(pages, this.#limit));
  }
}
