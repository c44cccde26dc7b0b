// `set-tube`: of a name at once; of a pattern first on all shards, and then asked for once more by who answers.

import { RequestFlag } from "../../message/request.ts";
import { ResponseKind } from "../../message/response.ts";
import { Reply } from "../../protocol/reply.ts";
import type { ShardCommand } from "./command.ts";

export const setTube: ShardCommand = (
  { replies, tubeSetter, nowMs },
  session,
  { tube, options, id, flags },
) => {
  const pattern = tube.text;
  const taken =
    options.length === 0 ? tubeSetter.mayHave(pattern) : tubeSetter.change(pattern, options, id, nowMs);
  if ((flags & RequestFlag.AckOnly) !== 0) {
    replies.signal(session, ResponseKind.Ack);
    return;
  }
  // The change may have been made by an earlier message of this command.
  replies.dependOnAll();
  replies.fixed(session, taken ? Reply.set : Reply.outOfMemory);
};
