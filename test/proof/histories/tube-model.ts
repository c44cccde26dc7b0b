// What a tube does, one operation at a time: the sequential specification that histories are
// checked against. Written from the protocol's description, without a line of the server.

import { COUNTED, type Kind, type Operation } from "./operation.ts";
import { type ModelJob, madeReady, type TubeState } from "./tube-state.ts";

type Step = (state: TubeState, operation: Operation) => TubeState | undefined;

/** The state after `operation`; undefined if its result can't be, in this state. */
export function step(state: TubeState, operation: Operation): TubeState | undefined {
  const after = STEPS[operation.kind](state, operation);
  const isNoted = operation.effect > 0 && operation.kind !== "undo" && after !== undefined;
  return isNoted ? state.noting(operation.effect, after) : after;
}

function put(state: TubeState, { job, pri, body, delaySeconds, timer }: Operation): TubeState | undefined {
  if (state.find(job) !== undefined) return undefined;
  const fresh = madeReady({
    id: job,
    pri,
    body,
    state: "ready",
    holder: 0,
    timer: 0,
    marginFromUs: 0,
    marginToUs: 0,
  });
  return state.with(delaySeconds > 0 ? { ...fresh, state: "delayed", timer } : fresh);
}

const isHeldBy = (job: ModelJob | undefined, client: number): job is ModelJob =>
  job !== undefined && job.state === "reserved" && job.holder === client;

function held(job: ModelJob, { client, timer, marginFromUs, marginToUs }: Operation): ModelJob {
  return { ...job, state: "reserved", holder: client, timer, marginFromUs, marginToUs };
}

/** Without a job: no job is ready, and the margin of the client's jobs explains the words. */
function reserveNothing(state: TubeState, operation: Operation): TubeState | undefined {
  if (state.best() !== undefined) return undefined;
  const { client, callUs, returnUs, result } = operation;
  const mine = state.jobs.filter((job) => isHeldBy(job, client));
  const fits =
    result === "deadline-soon"
      ? mine.some(({ marginFromUs }) => marginFromUs <= returnUs)
      : !mine.some(({ marginToUs }) => marginToUs < callUs);
  return fits ? state : undefined;
}

function reserve(state: TubeState, operation: Operation): TubeState | undefined {
  if (operation.result === "unknown") {
    const given = state.best();
    return given === undefined ? state : state.with(held(given, operation));
  }
  if (operation.result !== "reserved") return reserveNothing(state, operation);
  const best = state.best();
  if (best?.id !== operation.job || best.body !== operation.body) return undefined;
  return state.with(held(best, operation));
}

/**
 * A command about one job that succeeds exactly if `may` allows it. One of unknown outcome does
 * what it can: if it comes after all others, it is as if it had done nothing.
 */
function about(
  may: (job: ModelJob, client: number) => boolean,
  after: (state: TubeState, job: ModelJob, operation: Operation) => TubeState | undefined,
): Step {
  return (state, operation) => {
    const job = state.find(operation.job);
    const mayNot = operation.result === "not-found" || operation.result === "unknown";
    if (job === undefined || !may(job, operation.client)) return mayNot ? state : undefined;
    return operation.result === "not-found" ? undefined : after(state, job, operation);
  };
}

/** The first buried jobs; if there is none, delayed ones. */
function kick(state: TubeState, { bound, counts: [kicked], result }: Operation): TubeState | undefined {
  const buried = state.buried.slice(0, bound);
  const ids =
    buried.length > 0 ? buried : state.jobs.filter((job) => job.state === "delayed").map(({ id }) => id);
  // Which of several delayed jobs a small bound selects is a question of time: recorders ask none.
  if (ids.length > bound || (ids.length !== kicked && result !== "unknown")) return undefined;
  return ids.reduce((after, id) => after.with(madeReady(after.find(id)!)), state);
}

function due(before: TubeState, { job: id, timer }: Operation): TubeState {
  const state = before.withoutTimer(timer);
  const job = state.find(id);
  return job?.timer === timer ? state.with(madeReady(job)) : state;
}

function leave(state: TubeState, { job: id, client }: Operation): TubeState {
  const job = id > 0 ? state.find(id) : state.jobs.find((each) => isHeldBy(each, client));
  return isHeldBy(job, client) ? state.with(madeReady(job)) : state;
}

/** A look at one job of the tube, or at the fact that there is none. */
function look(matches: (state: TubeState, id: number) => boolean, any: (state: TubeState) => boolean): Step {
  return (state, { result, job }) =>
    (result === "found" ? matches(state, job) : !any(state)) ? state : undefined;
}

const mine = (job: ModelJob, client: number): boolean => isHeldBy(job, client);
const notReserved = ({ state }: ModelJob): boolean => state !== "reserved";
const always = (): boolean => true;

const STEPS: Readonly<Record<Kind, Step>> = {
  put,
  reserve,
  kick,
  due,
  leave,
  undo: (state, { effect }) => state.undone(effect),
  "reserve-job": about(notReserved, (state, job, operation) =>
    job.body === operation.body || operation.result === "unknown"
      ? state.with(held(job, operation))
      : undefined,
  ),
  delete: about(
    (job, client) => notReserved(job) || isHeldBy(job, client),
    (state, { id }) => state.without(id),
  ),
  release: about(mine, (state, job, { pri, delaySeconds, timer }) =>
    state.with({ ...madeReady(job), pri, ...(delaySeconds > 0 ? { state: "delayed", timer } : {}) }),
  ),
  bury: about(mine, (state, job, { pri }) => state.with({ ...madeReady(job), pri, state: "buried" })),
  touch: about(mine, (state, job, operation) => state.with(held(job, operation))),
  "kick-job": about(
    ({ state }) => state === "buried" || state === "delayed",
    (state, job) => state.with(madeReady(job)),
  ),
  peek: about(always, (state, job, { body }) => (job.body === body ? state : undefined)),
  "peek-ready": look(
    (state, id) => state.best()?.id === id,
    (state) => state.best() !== undefined,
  ),
  "peek-buried": look(
    (state, id) => state.buried[0] === id,
    (state) => state.buried.length > 0,
  ),
  "peek-delayed": look(
    (state, id) => state.find(id)?.state === "delayed",
    (state) => state.count("delayed") > 0,
  ),
  "stats-job": about(always, (state, job, operation) =>
    job.state === operation.state && job.pri === operation.pri ? state : undefined,
  ),
  "stats-tube": (state, { counts }) =>
    COUNTED.every((kind, index) => state.count(kind) === counts[index]) ? state : undefined,
};
