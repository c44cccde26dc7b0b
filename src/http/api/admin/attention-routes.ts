// Route of the list "Needs attention".

import { Type } from "typebox";
import { putReadinessOf } from "../../queue/health.ts";
import { knownSigns, knownTotals, knownTubes } from "../../queue/last-known.ts";
import type { Service } from "../../queue/service.ts";
import { answers, type Routes, requireServing } from "../api.ts";
import { Attention, Fields } from "../schemas.ts";
import { attentionOf, type Signs } from "./attention.ts";

/** Periods of the timeout and sync rules, seconds. */
const TIMEOUTS_SECONDS = 600;
const SYNCS_SECONDS = 300;

export const attentionRoutes: Routes = (api, service) => {
  api.get(
    "/v1/attention",
    {
      config: { may: "view", live: true },
      schema: {
        summary: "What needs attention, worst first",
        response: answers({ 200: Fields({ items: Type.Array(Attention) }) }, 503),
      },
    },
    async () => {
      requireServing(service);
      const [tubes, flows] = await Promise.all([
        knownTubes(service),
        knownSigns(service),
        // The counters below come with them.
        knownTotals(service),
      ]);
      const { atMs } = service.tubes;
      return { items: attentionOf(signsOf(service, { tubes: [...tubes.values()], atMs, flows })) };
    },
  );
};

function signsOf(service: Service, known: Pick<Signs, "tubes" | "atMs" | "flows">): Signs {
  const { totals, tubeHistory, memory, state, syncs } = service;
  const timeouts = totals.grown(TIMEOUTS_SECONDS, "timeouts");
  const sinceMs = service.wallMs() - TIMEOUTS_SECONDS * 1000;
  return {
    ...known,
    puts: putReadinessOf(service),
    isConfigTaken: state.reload.successful,
    memoryShare: memory.usedBytes / memory.limitBytes,
    reserves: totals.grown(TIMEOUTS_SECONDS, "reserves"),
    timeouts,
    timeoutsTube: timeouts === 0 ? undefined : tubeHistory.mostGrown("timeouts", sinceMs),
    grown: (tube, series) => tubeHistory.grown(tube, series, sinceMs),
    syncs: syncs.summary(service.wallMs() - SYNCS_SECONDS * 1000),
  };
}
