// Ends of delays and reservations as operations of their own, each with the interval in which the
// server must carry it out: linearizability knows no clock, but it knows intervals.

import type { Operation, Recorded } from "./operation.ts";

/**
 * How far the server's time may be from the clients'. It reads its clock once a turn, and any
 * thread may lose its core; the same holds for the clients.
 */
export interface Slack {
  readonly earlyUs: number;
  readonly lateUs: number;
}

const SECOND_US = 1_000_000;
/** A margin is the last second of a reservation. */
const MARGIN_US = SECOND_US;

/** After any of these the job has another timer, or none. */
const ENDS_TIMER: ReadonlySet<string> = new Set([
  "reserve",
  "reserve-job",
  "delete",
  "release",
  "bury",
  "touch",
  "kick-job",
]);

const succeeded = ({ result }: Pick<Recorded, "result">): boolean => result !== "not-found";

function startsReservation({ kind, result }: Recorded): boolean {
  return result === "reserved" || (kind === "touch" && succeeded({ result }));
}

function timerSeconds(operation: Recorded): number {
  if (startsReservation(operation)) return operation.ttrSeconds;
  const { kind, delaySeconds } = operation;
  return (kind === "put" || kind === "release") && succeeded(operation) ? delaySeconds : 0;
}

/** A wait that timed out found nothing at its end, not only at its beginning. */
function withoutTheWait(operation: Recorded, { earlyUs }: Slack): number {
  const { result, callUs, timeoutSeconds } = operation;
  if (result !== "timed-out" || timeoutSeconds === 0) return callUs;
  return callUs + timeoutSeconds * SECOND_US - earlyUs;
}

function withTimer(operation: Recorded, index: number, slack: Slack): Operation {
  const seconds = timerSeconds(operation);
  const marginUs = seconds * SECOND_US - MARGIN_US;
  const reserves = startsReservation(operation);
  return {
    ...operation,
    callUs: withoutTheWait(operation, slack),
    timer: seconds > 0 ? index + 1 : 0,
    marginFromUs: reserves ? operation.callUs + marginUs - slack.earlyUs : 0,
    marginToUs: reserves ? operation.returnUs + marginUs + slack.lateUs : 0,
  };
}

/** The operations with their timers, and the ends of those that may matter. */
export function withTimers(recorded: readonly Recorded[], slack: Slack): readonly Operation[] {
  const endUs = recorded.reduce((end, { callUs }) => Math.max(end, callUs), 0);
  const operations = recorded.map((operation, index) => withTimer(operation, index, slack));
  const ends = operations
    .filter(({ timer }) => timer > 0)
    .map((operation): Operation => {
      const { job, timer } = operation;
      const started = recorded[timer - 1]!;
      const us = timerSeconds(started) * SECOND_US;
      return {
        ...operation,
        kind: "due",
        client: 0,
        result: "done",
        callUs: started.callUs + us - slack.earlyUs,
        returnUs: started.returnUs + us + slack.lateUs,
        job,
      };
    })
    .filter((end) => end.callUs <= endUs && !isMootBy(recorded, end));
  return [...operations, ...ends];
}

/** Returns whether the job surely had no such timer any more when it would have ended. */
function isMootBy(recorded: readonly Recorded[], { job, timer, callUs }: Operation): boolean {
  const startedUs = recorded[timer - 1]!.returnUs;
  return recorded.some(
    (other) =>
      other.job === job &&
      other.callUs > startedUs &&
      other.returnUs < callUs &&
      ENDS_TIMER.has(other.kind) &&
      succeeded(other),
  );
}
