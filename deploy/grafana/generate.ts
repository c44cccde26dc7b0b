// Generates dashboard.json: `node deploy/grafana/generate.ts`. A test checks that the file is up to
// date, and that the server has every series in it.

import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

interface Panel {
  readonly title: string;
  /** The queries, each with its legend. */
  readonly queries: readonly (readonly [expr: string, legend: string])[];
  readonly unit?: string;
  /** Width in 24ths of the page. */
  readonly width: number;
  readonly isStat?: true;
}

interface Row {
  readonly title: string;
  readonly panels: readonly Panel[];
}

const SELECT = '{instance=~"$instance"}';
const OF_TUBES = '{instance=~"$instance", tube=~"$tube"}';
const rate = (series: string, select = SELECT): string =>
  `rate(runnerbean_${series}${select}[$__rate_interval])`;
const quantile = (q: number, series: string): string =>
  `histogram_quantile(${q}, sum by (le) (rate(runnerbean_${series}_bucket${SELECT}[$__rate_interval])))`;
const quantiles = (series: string): [string, string][] => [
  [quantile(0.5, series), "p50"],
  [quantile(0.99, series), "p99"],
];
/** A panel of the ten tubes with the highest values. */
const topTubes = (title: string, ...each: readonly [series: string, of?: string][]): Panel => ({
  title,
  width: 8,
  unit: "ops",
  queries: each.map(([series, of = ""]) => [`topk(10, ${rate(series, OF_TUBES)} > 0)`, `{{tube}}${of}`]),
});
const tubeQuantile = (title: string, series: string): Panel => ({
  title,
  width: 8,
  unit: "s",
  queries: [
    [
      `topk(10, histogram_quantile(0.99, sum by (le, tube) (${rate(`${series}_bucket`, OF_TUBES)})))`,
      "{{tube}}",
    ],
  ],
});
const stat = (title: string, expr: string, unit?: string): Panel => ({
  title,
  queries: [[expr, ""]],
  width: 4,
  isStat: true,
  ...(unit === undefined ? {} : { unit }),
});

export const ROWS: readonly Row[] = [
  {
    title: "Overview",
    panels: [
      stat("ready", `sum(runnerbean_jobs{instance=~"$instance", state="ready"})`),
      stat("reserved", `sum(runnerbean_jobs{instance=~"$instance", state="reserved"})`),
      stat("buried", `sum(runnerbean_jobs{instance=~"$instance", state="buried"})`),
      stat("oldest ready", `max(runnerbean_tube_oldest_ready_seconds${SELECT})`, "s"),
      stat("waiting clients", `sum(runnerbean_waiting${SELECT})`),
      stat("serves", `min(runnerbean_ready${SELECT})`),
      {
        title: "jobs a second",
        width: 12,
        unit: "ops",
        queries: ["puts", "reserves", "deletes", "releases", "buries", "timeouts", "disconnects"].map(
          (what) => [`sum(${rate(`${what}_total`)})`, what],
        ),
      },
      { title: "jobs", width: 12, queries: [[`sum by (state) (runnerbean_jobs${SELECT})`, "{{state}}"]] },
      { title: "ready until reserved", width: 12, unit: "s", queries: quantiles("job_wait_seconds") },
      { title: "reserved until done", width: 12, unit: "s", queries: quantiles("job_hold_seconds") },
    ],
  },
  {
    title: "Tubes",
    panels: [
      {
        title: "oldest ready, the ten oldest",
        width: 12,
        unit: "s",
        queries: [[`topk(10, runnerbean_tube_oldest_ready_seconds${OF_TUBES})`, "{{tube}}"]],
      },
      {
        title: "ready, the ten longest",
        width: 12,
        queries: [
          [`topk(10, runnerbean_tube_jobs{instance=~"$instance", tube=~"$tube", state="ready"})`, "{{tube}}"],
        ],
      },
      {
        title: "puts a second",
        width: 8,
        unit: "ops",
        queries: [[`topk(10, ${rate("tube_puts_total", OF_TUBES)})`, "{{tube}}"]],
      },
      {
        title: "deletes a second",
        width: 8,
        unit: "ops",
        queries: [[`topk(10, ${rate("tube_deletes_total", OF_TUBES)})`, "{{tube}}"]],
      },
      {
        title: "buried, timed out and disconnected a second",
        width: 8,
        queries: [
          [
            `runnerbean_tube_jobs{instance=~"$instance", tube=~"$tube", state="buried"} > 0`,
            "{{tube}} buried",
          ],
          [`${rate("tube_timeouts_total", OF_TUBES)} > 0`, "{{tube}} timeouts"],
          [`${rate("tube_disconnects_total", OF_TUBES)} > 0`, "{{tube}} disconnects"],
        ],
      },
    ],
  },
  {
    title: "Attempts, deaths and limits",
    panels: [
      {
        title: "died, expired, cancelled, refused a second",
        width: 8,
        unit: "ops",
        queries: [
          ["deaths", "died"],
          ["expiries", "expired"],
          ["cancels", "cancelled"],
          ["duplicates", "put twice"],
          ["refusals", "refused by a limit"],
          ["rate_waits", "waits for a rate"],
          ["group_rate_waits", "waits for a group's rate"],
        ].map(([what, legend]) => [`sum(${rate(`${what}_total`)})`, legend!]),
      },
      {
        title: "attempts for each job done, the ten most",
        width: 8,
        queries: [
          [
            `topk(10, sum by (tube) (${rate("tube_reserves_total", OF_TUBES)}) / (sum by (tube) (${rate("tube_deletes_total", OF_TUBES)}) > 0))`,
            "{{tube}}",
          ],
        ],
      },
      {
        title: "tubes that need attention",
        width: 8,
        queries: [
          [`sum(runnerbean_tubes_holding_dead${SELECT})`, "dead-letter tubes with jobs"],
          [`sum(runnerbean_tubes_unwatched${SELECT})`, "no worker watches"],
          [`sum(runnerbean_tubes_paused${SELECT})`, "paused"],
        ],
      },
      topTubes("deaths a second", ["tube_deaths_total"]),
      topTubes("expiries a second", ["tube_expiries_total"]),
      topTubes(
        "waits for a rate, a second",
        ["tube_rate_waits_total"],
        ["tube_group_rate_waits_total", ", a group"],
      ),
      topTubes("duplicates a second", ["tube_duplicates_total"]),
      topTubes("puts refused by a limit, a second", ["tube_refusals_total"]),
      {
        title: "ready jobs that died elsewhere",
        width: 8,
        queries: [
          [
            `runnerbean_tube_jobs{instance=~"$instance", tube=~"$tube", state="ready"} and on (instance, tube) runnerbean_tube_holds_dead${OF_TUBES} == 1`,
            "{{tube}}",
          ],
        ],
      },
      tubeQuantile("99th percentile of wait, the ten longest", "tube_wait_seconds"),
      tubeQuantile("99th percentile of hold, the ten longest", "tube_hold_seconds"),
      {
        title: "median wait and hold of the tubes",
        width: 8,
        unit: "s",
        queries: ["wait", "hold"].map((what) => [
          `histogram_quantile(0.5, sum by (le) (${rate(`tube_${what}_seconds_bucket`, OF_TUBES)}))`,
          what,
        ]),
      },
    ],
  },
  {
    title: "Batches and schedules",
    panels: [
      {
        title: "batches, members and callbacks",
        width: 8,
        queries: [
          [
            `sum by (state) (runnerbean_batches{instance=~"$instance", state!="complete"})`,
            "batches: {{state}}",
          ],
          [`sum(runnerbean_batch_members${SELECT})`, "open members"],
          [`sum(runnerbean_batch_callbacks_waiting${SELECT})`, "waiting jobs"],
        ],
      },
      {
        title: "batches complete, and members ended, a second",
        width: 8,
        unit: "ops",
        queries: [
          [`sum by (outcome) (${rate("batches_completed_total")})`, "batches: {{outcome}}"],
          [`sum by (how) (${rate("batch_members_ended_total")})`, "members: {{how}}"],
          [`sum by (how) (${rate("batch_callbacks_total")})`, "callbacks: {{how}}"],
        ],
      },
      {
        title: "age of the oldest batch",
        width: 8,
        unit: "s",
        queries: [
          [`max(runnerbean_batch_open_seconds${SELECT})`, "takes members"],
          [`max(runnerbean_batch_unfinished_seconds${SELECT})`, "incomplete"],
        ],
      },
      {
        title: "schedules",
        width: 8,
        queries: [[`sum by (state) (runnerbean_schedules${SELECT})`, "{{state}}"]],
      },
      {
        title: "ticks, runs and refusals of schedules, a second",
        width: 8,
        unit: "ops",
        queries: [
          [`sum by (how) (${rate("schedule_ticks_total")})`, "ticks: {{how}}"],
          [`sum(${rate("schedule_runs_total")})`, "run now"],
          [`sum(${rate("schedule_refusals_total")})`, "refused"],
        ],
      },
      {
        title: "how late, and until the next tick",
        width: 8,
        unit: "s",
        queries: [
          [`max(runnerbean_schedule_late_seconds${SELECT})`, "late"],
          [`min(runnerbean_schedule_next_seconds${SELECT})`, "until the next"],
        ],
      },
    ],
  },
  {
    title: "Connections and commands",
    panels: [
      {
        title: "connections",
        width: 8,
        queries: [
          [`sum(runnerbean_connections${SELECT})`, "connections"],
          [`sum(runnerbean_producers${SELECT})`, "producers"],
          [`sum(runnerbean_workers${SELECT})`, "workers"],
          [`sum(runnerbean_waiting${SELECT})`, "waiting"],
        ],
      },
      {
        title: "commands a second",
        width: 8,
        unit: "ops",
        queries: [[`sum by (command) (${rate("commands_total")}) > 0`, "{{command}}"]],
      },
      { title: "time of a command", width: 8, unit: "s", queries: quantiles("command_duration_seconds") },
      {
        title: "bytes a second",
        width: 8,
        unit: "Bps",
        queries: [[`sum by (direction) (${rate("network_bytes_total")})`, "{{direction}}"]],
      },
      {
        title: "rejected and broken, a second",
        width: 8,
        unit: "ops",
        queries: [
          [`sum by (reason) (${rate("connections_rejected_total")}) > 0`, "{{reason}}"],
          [`sum by (protocol) (${rate("auth_failures_total")}) > 0`, "wrong tokens, {{protocol}}"],
          [`sum by (reason) (${rate("connections_closed_total")}) > 0`, "ended: {{reason}}"],
        ],
      },
    ],
  },
  {
    title: "Log",
    panels: [
      {
        title: "bytes",
        width: 8,
        unit: "bytes",
        queries: [[`sum by (kind) (runnerbean_binlog_bytes${SELECT})`, "{{kind}}"]],
      },
      { title: "fsync", width: 8, unit: "s", queries: quantiles("binlog_sync_seconds") },
      {
        title: "records a second",
        width: 8,
        unit: "ops",
        queries: [[`sum(${rate("binlog_records_total")})`, "records"]],
      },
      {
        title: "written a second",
        width: 8,
        unit: "Bps",
        queries: [[`sum(${rate("binlog_written_bytes_total")})`, "bytes"]],
      },
      {
        title: "oldest record waiting for the disk",
        width: 8,
        unit: "s",
        queries: [[`max(runnerbean_binlog_unsynced_seconds${SELECT})`, "waits"]],
      },
      {
        title: "compacting",
        width: 8,
        queries: [
          [`max(runnerbean_binlog_compacting${SELECT})`, "compacting"],
          [`max(runnerbean_binlog_full${SELECT})`, "full"],
        ],
      },
    ],
  },
  {
    title: "Threads and memory",
    panels: [
      {
        title: "CPU",
        width: 12,
        unit: "percentunit",
        queries: [[`sum by (thread) (${rate("thread_cpu_seconds_total")})`, "{{thread}}"]],
      },
      {
        title: "memory",
        width: 12,
        unit: "bytes",
        queries: [
          [`sum by (kind) (runnerbean_memory_bytes${SELECT})`, "{{kind}}"],
          [`sum(process_resident_memory_bytes${SELECT})`, "resident"],
          [`sum(runnerbean_memory_limit_bytes${SELECT})`, "limit"],
        ],
      },
    ],
  },
  {
    title: "HTTP",
    panels: [
      {
        title: "requests a second",
        width: 12,
        unit: "reqps",
        queries: [[`sum by (route, status) (${rate("http_requests_total")})`, "{{route}} {{status}}"]],
      },
      { title: "time of a request", width: 12, unit: "s", queries: quantiles("http_request_seconds") },
    ],
  },
];

const HEIGHT = 8;
const STAT_HEIGHT = 4;
const WIDTH = 24;
// biome-ignore lint/suspicious/noTemplateCurlyInString: Grafana replaces it
const DATASOURCE = { type: "prometheus", uid: "${datasource}" };

function panelsOf(rows: readonly Row[]): object[] {
  const panels: object[] = [];
  let y = 0;
  for (const { title, panels: own } of rows) {
    panels.push({
      type: "row",
      title,
      collapsed: false,
      gridPos: { x: 0, y: y++, w: WIDTH, h: 1 },
      id: panels.length + 1,
    });
    let [x, height] = [0, 0];
    for (const panel of own) {
      const h = panel.isStat === true ? STAT_HEIGHT : HEIGHT;
      if (x + panel.width > WIDTH) {
        y += height;
        x = 0;
      }
      panels.push({ ...panelOf(panel), gridPos: { x, y, w: panel.width, h }, id: panels.length + 1 });
      x += panel.width;
      height = h;
    }
    y += height;
  }
  return panels;
}

function panelOf({ title, queries, unit, isStat }: Panel): object {
  return {
    type: isStat === true ? "stat" : "timeseries",
    title,
    datasource: DATASOURCE,
    fieldConfig: { defaults: { unit: unit ?? "short", min: 0 }, overrides: [] },
    options:
      isStat === true
        ? { reduceOptions: { calcs: ["lastNotNull"] } }
        : { tooltip: { mode: "multi", sort: "desc" } },
    targets: queries.map(([expr, legendFormat], index) => ({
      refId: String.fromCharCode(65 + index),
      datasource: DATASOURCE,
      expr,
      legendFormat,
    })),
  };
}

function variable(name: string, query: string): object {
  return {
    name,
    type: "query",
    datasource: DATASOURCE,
    query,
    refresh: 2,
    includeAll: true,
    multi: true,
    current: { text: "All", value: "$__all" },
  };
}

export function dashboard(): string {
  const body = {
    uid: "runnerbean",
    title: "runnerbean",
    tags: ["queue"],
    timezone: "browser",
    refresh: "10s",
    schemaVersion: 41,
    time: { from: "now-1h", to: "now" },
    templating: {
      list: [
        {
          name: "datasource",
          type: "datasource",
          query: "prometheus",
          current: { text: "Prometheus", value: "prometheus" },
        },
        variable("instance", "label_values(runnerbean_build_info, instance)"),
        variable("tube", 'label_values(runnerbean_tube_jobs{instance=~"$instance"}, tube)'),
      ],
    },
    panels: panelsOf(ROWS),
  };
  return `${JSON.stringify(body, undefined, 1)}\n`;
}

if (import.meta.main) writeFileSync(fileURLToPath(new URL("dashboard.json", import.meta.url)), dashboard());
