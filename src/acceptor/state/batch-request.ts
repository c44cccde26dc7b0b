// The options of a reserve-batch, translated into the fields that its shard reads.

import { BatchView, RequestFlag } from "../../message/request.ts";
import { BATCH_BYTES_MAX } from "../../protocol/limits.ts";
import { OptionTag } from "../../protocol/option-rows.ts";
import { optionNumber } from "../../protocol/options.ts";
import type { Request } from "../../protocol/request.ts";

/**
 * Moves the options into other fields of the request. Returns whether the client may abort the
 * wait.
 */
export function readBatchOptions(request: Request): boolean {
  const { options } = request;
  const bytes = optionNumber(options, OptionTag.Bytes) ?? BATCH_BYTES_MAX;
  BatchView.limitBytes(request, Math.min(bytes, BATCH_BYTES_MAX));
  request.flags =
    RequestFlag.Batch |
    (optionNumber(options, OptionTag.Tubes) === undefined ? 0 : RequestFlag.Tubes) |
    (optionNumber(options, OptionTag.WithMeta) === undefined ? 0 : RequestFlag.Meta);
  const mayAbort = optionNumber(options, OptionTag.Abort) !== undefined;
  options.clear();
  return mayAbort;
}
