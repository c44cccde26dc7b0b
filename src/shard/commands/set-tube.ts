// `set-tube`. A plain name takes effect at once. A pattern is sent to all shards first, and then
// once more to the shard that answers.

import { assert } from "../../base/assert.ts";
import { RequestFlag, SetPartView } from "../../message/request.ts";
import { ResponseKind } from "../../message/response.ts";
import { Reply } from "../../protocol/reply.ts";
import { SetMany } from "../slices/set-many.ts";
import type { ShardCommand } from "./command.ts";

/** May take several turns. */
export const setTube: ShardCommand = (
  { engine, slicedCommands, replies, tubeSetter, nowMs },
  session,
  request,
) => {
  const { tube, options, flags } = request;
  const pattern = tube.text;
  const isPart = (flags & RequestFlag.AckOnly) !== 0;
  const answer = (taken: boolean): void => {
    if (isPart) {
      replies.signal(session, ResponseKind.Ack);
      return;
    }
    // An earlier message of this command may have made the change.
    replies.dependOnAll();
    replies.fixed(session, taken ? Reply.set : Reply.outOfMemory);
  };
  const change = isPart ? SetPartView.change(request) : 0;
  assert(change >= 0, "a change of settings has a number");
  const setting = options.length === 0 ? undefined : tubeSetter.change(pattern, options, change, nowMs);
  if (setting === undefined) answer(options.length === 0 && tubeSetter.mayHave(pattern));
  else slicedCommands.start(session, new SetMany(engine, setting, () => answer(true)), nowMs);
};
