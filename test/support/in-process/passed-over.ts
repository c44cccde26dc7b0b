// Finds reserves that returned a worse job although a better one was ready, from what clients sent
// and received and when.
//
// All timestamps come from one clock. A job was certainly ready from the reply that made it ready
// (INSERTED, RELEASED) until the reserve that took it was sent, so a reserve sent and answered
// within that time should not have got a worse one.

export interface ReadyTime {
  readonly id: number;
  readonly pri: number;
  readonly tube: string;
  /** When the reply that tells of it was received. */
  readonly fromMs: number;
  /** When the reserve that took it was sent; Infinity if it is untaken. */
  untilMs: number;
}

export interface Reserved {
  readonly id: number;
  readonly pri: number;
  readonly watched: ReadonlySet<string>;
  readonly sentMs: number;
  readonly repliedMs: number;
}

interface Verdict {
  /**
   * Pairs of a reserve and a job that was surely ready all the while: so many could have been
   * wrong.
   */
  readonly compared: number;
  readonly passedOver: readonly string[];
}

export function findPassedOver(readyTimes: readonly ReadyTime[], reserves: readonly Reserved[]): Verdict {
  const passedOver: string[] = [];
  let compared = 0;
  for (const reserve of reserves) {
    for (const ready of readyTimes) {
      if (ready.fromMs >= reserve.sentMs || ready.untilMs <= reserve.repliedMs) continue;
      if (!reserve.watched.has(ready.tube)) continue;
      compared++;
      const isBetter = ready.pri < reserve.pri || (ready.pri === reserve.pri && ready.id < reserve.id);
      if (isBetter) {
        passedOver.push(
          `reserve sent at ${reserve.sentMs.toFixed(3)} got job ${reserve.id} of priority ${reserve.pri}, ` +
            `while job ${ready.id} of priority ${ready.pri} was ready in ${ready.tube} since ${ready.fromMs.toFixed(3)}`,
        );
      }
    }
  }
  return { compared, passedOver };
}
