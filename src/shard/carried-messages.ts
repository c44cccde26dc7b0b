// Messages from other shards, which an acceptor relays: each goes to the part of this shard that it
// concerns.

import { assert } from "../base/assert.ts";
import type { Outcome } from "../engine/engine.ts";
import { CarriedView } from "../message/request.ts";
import { LandedView, TransferMessage } from "../message/transfer.ts";
import type { Request } from "../protocol/request.ts";
import type { ShardParts } from "./shard-parts.ts";

export function takeCarried(shard: ShardParts, message: Request): void {
  const { transferSender, transferReceiver, homes, schedules, nowMs } = shard;
  const { body } = message;
  assert(body.end <= body.bytes.length, "a message from a shard lies in its ring");
  const transferMessage = CarriedView.transferMessage(message);
  const from = CarriedView.fromShard(message);
  const transfer = CarriedView.transfer(message);
  if (transferMessage === TransferMessage.Begin) transferReceiver.begin(from, transfer, body, nowMs);
  else if (transferMessage === TransferMessage.Piece) transferReceiver.piece(from, transfer, body, nowMs);
  else if (transferMessage === TransferMessage.Credit) transferSender.credit(transfer);
  else if (transferMessage >= TransferMessage.BatchState) homes.take(transferMessage, from, body, nowMs);
  else if (transferMessage >= TransferMessage.ClaimName)
    schedules.claims.take(transferMessage, from, transfer, body);
  else {
    const view = new DataView(body.bytes.buffer, body.bytes.byteOffset + body.start);
    const refusal = LandedView.refusal(view, 0) as Outcome;
    transferSender.landed(transfer, LandedView.taken(view, 0), refusal, nowMs);
  }
}
