// The claim word: exactly one of shards and acceptor ends a wait, and a late one does no harm to
// the next.

import { ClaimWords } from "../../../src/ring/connection-words.ts";
import type { Shared } from "../case.ts";
import { litmusCase, SLOTS } from "../litmus.ts";
import { GreedyClaims, TwoStepClaims } from "../planted/words.ts";

const ACTORS = ["acceptor", "shard 0", "shard 1"] as const;
const WAIT = 7;
const NEXT_WAIT = 8;
const BY_LOAD_AND_STORE = "claims by a load and a store";
const WHATEVER_IS_OPEN = "claims whatever wait is open";

interface State {
  readonly claims: ClaimWords;
  /** For each slot and actor: 1 if it has won, 2 if it saw the wait open after that. */
  readonly results: Int32Array;
}

const create = (): Shared => ({
  claims: new SharedArrayBuffer(SLOTS * 4),
  results: new SharedArrayBuffer(SLOTS * ACTORS.length * 4),
});

function open(shared: Shared, planted: string | undefined): State {
  const claims =
    planted === BY_LOAD_AND_STORE
      ? new TwoStepClaims(shared["claims"]!)
      : planted === WHATEVER_IS_OPEN
        ? new GreedyClaims(shared["claims"]!)
        : new ClaimWords(shared["claims"]!);
  return { claims, results: new Int32Array(shared["results"]!) };
}

function claim({ claims, results }: State, actor: number, slot: number): void {
  const won = claims.claim(slot, WAIT) ? 1 : 0;
  results[slot * ACTORS.length + actor] = won + (claims.isOpen(slot, WAIT) ? 2 : 0);
}

function winner({ results }: State, slot: number): string {
  const seen = ACTORS.map((_, actor) => results[slot * ACTORS.length + actor]!);
  if (seen.some((result) => result > 1)) return "the wait was open after a claim";
  const winners = ACTORS.filter((_, actor) => seen[actor] === 1);
  return winners.length === 1 ? `won by ${winners[0]}` : `won by ${winners.length}`;
}

const outcomes = ACTORS.map((actor) => ({
  result: `won by ${actor}`,
  verdict: "ACCEPTABLE" as const,
  why: "one wins, whoever comes first; the others find the word changed",
  required: true as const,
}));

export const claimCase = litmusCase<State>({
  name: "claim",
  about: "two shards with a job and an acceptor whose timeout is over end one wait",
  actors: ACTORS,
  outcomes,
  planted: [BY_LOAD_AND_STORE],
  create,
  open,
  reset: ({ claims }, slot) => claims.open(slot, WAIT),
  act: claim,
  judge: winner,
});

export const claimLateCase = litmusCase<State>({
  name: "claim-late",
  about: "claims of a wait that is over, while the connection's next wait opens",
  actors: ACTORS,
  outcomes,
  planted: [BY_LOAD_AND_STORE, WHATEVER_IS_OPEN],
  create,
  open,
  reset: ({ claims }, slot) => claims.open(slot, WAIT),
  act(state, actor, slot) {
    claim(state, actor, slot);
    if (actor === 0) state.claims.open(slot, NEXT_WAIT);
  },
  judge: (state, slot) =>
    state.claims.isOpen(slot, NEXT_WAIT)
      ? winner(state, slot)
      : "the next wait was ended by a claim of the last",
});
