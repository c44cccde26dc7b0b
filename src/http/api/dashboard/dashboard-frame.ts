// The frame around every page of the dashboard.

import type { Frame } from "../../../dashboard/parts/view-types.ts";
import { putReadinessOf, readinessOf } from "../../queue/health.ts";
import type { Service } from "../../queue/service.ts";

export function frameOf(service: Service): Frame {
  const ready = readinessOf(service);
  const { status, detail } = ready.ok ? putReadinessOf(service) : ready;
  return {
    version: service.facts.version,
    hostname: service.facts.hostname,
    status,
    detail,
    serves: ready.ok,
    uptime: Math.floor((service.nowMs() - service.facts.startedAtMonotonicMs) / 1000),
    at: new Date(service.wallMs()).toISOString(),
    listener: service.state.listeners[0] ?? null,
    isInGroup: service.topology.binlog?.group !== undefined,
  };
}
