// Case selection: a named set, cases of the catalogue, or a scenario with custom parameters.
import { SCENARIO_NAMES, type ScenarioName } from "../load/programs.ts";
import { WORKLOAD_DEFAULTS } from "../load/workload.ts";
import type { BenchOptions } from "../options.ts";
import type { BenchCase } from "./bench-case.ts";
import { busyCase } from "./busy-case.ts";
import {
  allCases,
  defaultCases,
  everydayCases,
  namedCases,
  placementCases,
  quickCases,
  readmeCases,
  type Timing,
} from "./catalogue.ts";
import { loadCase } from "./load-case.ts";
import { memoryCase } from "./memory-case.ts";
import { startCase } from "./start-case.ts";

const DEFAULT_TIMING: Timing = { seconds: 1.2, warmupSeconds: 1 };
const QUICK_TIMING: Timing = { seconds: 0.4, warmupSeconds: 0.15 };

/** After that, V8 has compiled most of what commands run. */
const WARM_SECONDS = 1;

/** Named by --scenario; each is a list of cases for one purpose. */
const SETS: Readonly<Record<string, (timing: Timing) => BenchCase[]>> = {
  default: defaultCases,
  quick: quickCases,
  readme: readmeCases,
  placement: placementCases,
  everyday: everydayCases,
  all: allCases,
};

export function selectCases(options: BenchOptions): BenchCase[] {
  const cases = askedCases(options);
  const { burn } = options;
  if (burn === undefined) return cases;
  return cases.map((each) => (each.busyLoops === undefined ? busyCase(each, burn) : each));
}

function askedCases(options: BenchOptions): BenchCase[] {
  const timing = timingOf(options);
  if (options.scenario === undefined && !hasParameters(options)) {
    return options.quick || options.profile ? quickCases(timing) : defaultCases(timing);
  }
  const names = options.scenario ?? ["put-reserve-delete"];
  return distinct(names.flatMap((name) => casesNamed(name, options, timing)));
}

/** Returns what figures of servers that have just started don't show; undefined for warm ones. */
export function coldNote(options: BenchOptions): string | undefined {
  if (timingOf(options).warmupSeconds >= WARM_SECONDS) return undefined;
  return "Each turn begins with the start of a server, while V8 still compiles ours: npm run bench measures warm servers.";
}

function timingOf(options: BenchOptions): Timing {
  const timing = options.quick ? QUICK_TIMING : DEFAULT_TIMING;
  const seconds = options.seconds ?? timing.seconds;
  const warmupSeconds =
    options.warmup ?? (options.seconds === undefined ? timing.warmupSeconds : Math.min(1, seconds / 3));
  return { seconds, warmupSeconds };
}

function hasParameters(o: BenchOptions): boolean {
  return [o.connections, o.pipeline, o.body, o.tubes, o.watchers, o.rate, o.jobs].some(
    (value) => value !== undefined,
  );
}

function casesNamed(name: string, options: BenchOptions, timing: Timing): BenchCase[] {
  const set = Object.hasOwn(SETS, name) ? SETS[name] : undefined;
  if (set !== undefined) return set(timing);
  if (options.jobs !== undefined) {
    if (name === "memory") return [memoryCase(options.jobs)];
    if (name === "start") return [startCase(options.jobs)];
  }
  if (isScenario(name) && hasParameters(options)) return product(name, options, timing);
  const known = [...allCases(timing), ...namedCases(timing, options)];
  const ofGroup = known.filter((candidate) => candidate.group === name);
  if (ofGroup.length > 0) return ofGroup;
  const others = [...defaultCases(timing), ...readmeCases(timing)];
  const ofKey = [...known, ...others].filter((candidate) => candidate.key === name);
  if (ofKey.length > 0) return ofKey;
  const groups = [...new Set(known.map((candidate) => candidate.group))];
  throw new Error(`Unknown scenario ${name}. There are: ${[...Object.keys(SETS), ...groups].join(", ")}`);
}

function isScenario(name: string): name is ScenarioName {
  return (SCENARIO_NAMES as readonly string[]).includes(name);
}

/** Every combination of the parameters given. */
function product(scenario: ScenarioName, o: BenchOptions, timing: Timing): BenchCase[] {
  const base = { ...WORKLOAD_DEFAULTS, ...timing, scenario };
  const watchers = o.watchers ?? base.watchers;
  const tubes = o.tubes ?? [scenario === "tubes" ? 1500 : base.tubes];
  let workloads = [{ ...base, watchers }];
  workloads = each(workloads, "connections", o.connections ?? [base.connections]);
  workloads = each(workloads, "pipeline", o.pipeline ?? [base.pipeline]);
  workloads = each(workloads, "bodyBytes", o.body ?? [base.bodyBytes]);
  workloads = each(workloads, "tubes", tubes);
  workloads = each(workloads, "rate", o.rate ?? [0]);
  return workloads.map((workload) => loadCase(workload));
}

/** Each of these with each of the values. */
function each<T, K extends keyof T>(all: readonly T[], key: K, values: readonly T[K][]): T[] {
  return all.flatMap((one) => values.map((value) => ({ ...one, [key]: value })));
}

function distinct(cases: BenchCase[]): BenchCase[] {
  return [...new Map(cases.map((benchCase) => [benchCase.key, benchCase])).values()];
}
