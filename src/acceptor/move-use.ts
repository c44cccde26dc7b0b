// `use` of a tube on another shard: taken there first, given up on the old shard then, answered last, so that the
// reply is sent when both have happened, and the connection uses some tube at any time.

import { asciiBytes } from "../base/bytes.ts";
import { RequestFlag, RequestOp } from "../message/request.ts";
import { ResponseKind } from "../message/response.ts";
import { Op } from "../protocol/op.ts";
import type { Connection } from "./connection.ts";
import type { Conversation } from "./conversation.ts";
import type { TubeRef } from "./tube-ref.ts";

export class MoveUse implements Conversation {
  readonly #connection: Connection;
  readonly #from: TubeRef;
  readonly #to: TubeRef;
  #taken = false;

  constructor(connection: Connection, from: TubeRef, to: TubeRef) {
    this.#connection = connection;
    this.#from = from;
    this.#to = to;
    connection.post(to.shard, Op.Use, RequestFlag.AckOnly, Op.Use, { payload: to.bytes });
  }

  onSignal(_shard: number, kind: number): void {
    // A late WaitDue of a reserve that has ended is none of our business.
    if (kind !== ResponseKind.Ack) return;
    if (!this.#taken) {
      this.#taken = true;
      this.#connection.post(this.#from.shard, RequestOp.Unuse, 0, 0);
      return;
    }
    this.#connection.finishConversation(asciiBytes(`USING ${this.#to.name}\r\n`));
  }

  onReply(): void {}
}
