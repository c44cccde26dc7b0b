// The peeks at the front of a queue of the tube in use.

import type { Tube } from "../../engine/tube.ts";
import type { ShardCommand } from "./command.ts";

function peekAt(front: (tube: Tube) => number): ShardCommand {
  return ({ engine, replies, nowMs }, session) => {
    engine.runDue(nowMs);
    replies.found(session, front(session.engineSession.tubeInUse), 0);
  };
}

export const peekReady: ShardCommand = peekAt((tube) => tube.ready.best);
export const peekDelayed: ShardCommand = peekAt((tube) => tube.delayed.top);
export const peekBuried: ShardCommand = peekAt((tube) => tube.buried.first);
