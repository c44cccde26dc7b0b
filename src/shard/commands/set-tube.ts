// `set-tube`: of a name at once; of a pattern first on all shards, and then asked for once more by who answers.

import { RequestFlag } from "../../message/request.ts";
import { ResponseKind } from "../../message/response.ts";
import { Reply } from "../../protocol/reply.ts";
import { SetMany } from "../slices/set-many.ts";
import type { ShardCommand } from "./command.ts";

/** May take several turns. */
export const setTube: ShardCommand = (
  { engine, moves, replies, tubeSetter, nowMs },
  session,
  { tube, options, id, flags },
) => {
  const pattern = tube.text;
  const isPart = (flags & RequestFlag.AckOnly) !== 0;
  const answer = (taken: boolean): void => {
    if (isPart) {
      replies.signal(session, ResponseKind.Ack);
      return;
    }
    // The change may have been made by an earlier message of this command.
    replies.dependOnAll();
    replies.fixed(session, taken ? Reply.set : Reply.outOfMemory);
  };
  const setting = options.length === 0 ? undefined : tubeSetter.change(pattern, options, id, nowMs);
  if (setting === undefined) answer(options.length === 0 && tubeSetter.mayHave(pattern));
  else moves.start(session, new SetMany(engine, setting, () => answer(true)), nowMs);
};
