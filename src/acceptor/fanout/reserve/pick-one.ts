// Chooses the best job of several shards, for `reserve`.

import { RequestOp } from "../../../message/request.ts";
import { CandidateView, ResponseKind } from "../../../message/response.ts";
import type { Request } from "../../../protocol/request.ts";
import type { Signal } from "../conversation.ts";
import type { ConversationHost } from "../conversation-host.ts";
import { Next, type Picker } from "./picker.ts";

interface Candidate {
  readonly shard: number;
  readonly pri: number;
  readonly id: number;
}

const NO_ID_BOUND = Number.POSITIVE_INFINITY;
const NO_PRI_BOUND = 0xffffffff;

export class PickOne implements Picker {
  readonly #host: ConversationHost;
  /** Candidates by shard, for shards that have one. */
  readonly #candidates = new Map<number, Candidate>();

  constructor(host: ConversationHost) {
    this.#host = host;
  }

  ask(message: Request): void {
    message.op = RequestOp.Collect;
  }

  note(signal: Signal): void {
    const { shard } = signal;
    if (signal.kind !== ResponseKind.Candidate) this.#candidates.delete(shard);
    else {
      const pri = CandidateView.pri(signal);
      this.#candidates.set(shard, { shard, pri, id: CandidateView.id(signal) });
    }
  }

  take(): boolean {
    let best: Candidate | undefined;
    let second: Candidate | undefined;
    for (const candidate of this.#candidates.values()) {
      if (best === undefined || better(candidate, best)) {
        second = best;
        best = candidate;
      } else if (second === undefined || better(candidate, second)) {
        second = candidate;
      }
    }
    if (best === undefined) return false;
    const take = this.#host.message(RequestOp.Take);
    take.pri = second?.pri ?? NO_PRI_BOUND;
    take.id = second?.id ?? NO_ID_BOUND;
    this.#host.post(best.shard, take);
    return true;
  }

  onRefusal(signal: Signal): Next {
    this.note(signal);
    return Next.Choose;
  }
}

function better(a: Candidate, b: Candidate): boolean {
  return a.pri < b.pri || (a.pri === b.pri && a.id < b.id);
}
