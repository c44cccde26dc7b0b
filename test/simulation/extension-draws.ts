// Random commands that beanstalkd does not have, with their options and settings.

import type { Command } from "./client/command.ts";
import * as command from "./client/command.ts";
import type { SimClient } from "./client/sim-client.ts";
import { isSameChoice, type JobChoice } from "./model/job-choice.ts";
import { NO_OPTIONS, ON_DUPLICATE, type PutOptions } from "./model/model-policies.ts";
import type { SimulationState } from "./simulation-state.ts";

/** Delays of puts that may have fractions of seconds. */
const DELAYS_MS: readonly [number, ...number[]] = [0, 0, 0, 1, 500, 1999];

/**
 * A token in 128 ms, a second, 4 s: powers of two, so that a sum of tokens is never rounded, and
 * the model's is the engine's.
 */
const RATES = ["1000/128", "125/128", "125/512"];

export const SCHEDULES: readonly [string, ...string[]] = ["s0", "s1"];
const BATCHES: readonly [string, ...string[]] = ["b0", "b1"];

/** The witness compares what the engine keeps (EngineComparison.compareFinished). */
const FINISHED_FORM =
  /^OK \d+\r\n---\nnext: \d+\njobs:(?: \[\]\n|\n(?:- \{"id":\d+,"state":"(?:deleted|dead|expired|cancelled)","put":[\d.]+,(?:"start":[\d.]+,)?"end":[\d.]+,"attempts":\d+.*\}\n)+)\r\n$/;

const STATES = ["ready", "delayed", "buried", "reserved"] as const;

export class ExtensionDraws {
  readonly #simulation: SimulationState;
  #names = 0;

  constructor(simulation: SimulationState) {
    this.#simulation = simulation;
  }

  /**
   * A command that beanstalkd does not have. A run without them draws nothing for them, so that
   * they don't change it.
   */
  drawExtension(client: SimClient): Command | undefined {
    const random = this.#simulation.random;
    const pri = random.pick([0, 1, 1, 5, 1024, 4294967295]);
    const kind = this.#simulation.weighted({
      putInTube: this.#simulation.puts,
      extensions: 0.5,
      wrongOption: 1,
      listJobs: 2,
      clearTube: 1,
      updateJob: 4,
      inspect: 1,
      ...{ reserveBatch: this.#simulation.reserves, deleteBatch: 3, touchAll: 2 },
      setTube: this.#simulation.policies ? 5 : 0,
      moveJobs: this.#simulation.jobMoves,
      weigh: this.#simulation.weights ? 5 : 0,
      reserveOrder: this.#simulation.weights ? 3 : 0,
      inspectWatched: this.#simulation.weights ? 1 : 0,
      listAll: this.#simulation.jobMoves > 0 ? 2 : 0,
      batch: this.#simulation.flows ? 8 : 0,
      schedule: this.#simulation.flows ? 4 : 0,
      duplicate: this.#simulation.duplicates ? 6 : 0,
      cancelJob: this.#simulation.cancels ? 5 : 0,
      touchJob: this.#simulation.cancels ? 5 : 0,
      finishedJobs: this.#simulation.cancels ? 2 : 0,
    });
    switch (kind) {
      case "putInTube":
        return this.#putInTube(pri, this.#simulation.tube());
      case "duplicate":
        return this.#putDuplicate(pri);
      case "cancelJob": {
        // Most often one that a client holds: only then is there more to see.
        const held = [...this.#simulation.model.jobs.values()].filter(({ state }) => state === "reserved");
        const id = random.chance(0.7) ? (random.pick(held)?.id ?? 0) : this.#simulation.id(client);
        return this.#simulation.isFree((each) => each.kind === "cancel-job" && each.id === id)
          ? command.cancelJob(id, random.pick(["", "late", "not%20needed"]))
          : undefined;
      }
      case "touchJob":
        return command.byId(
          "touch-job",
          this.#simulation.id(client),
          random.pick([
            "",
            ` progress=${random.between(0, 100)}`,
            " note=n",
            " progress=7 note=half",
            " note=",
          ]),
        );
      case "finishedJobs":
        return command.ofBatch(
          `finished-jobs ${this.#simulation.tube()}${random.pick(["", " limit=1", " before=3"])}`,
          FINISHED_FORM,
        );
      case "setTube":
        return this.#setTube();
      case "reserveBatch":
        return command.reserveBatch(client, random.pick([undefined, 0, 0.5, 1, 2]), {
          jobsMax: random.pick([1, 2, 3, 10, 60]),
          bytesMax: random.pick([Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, 5, 30, 2000]),
          tubes: random.chance(0.3),
          mayAbort: random.chance(0.5),
          ...this.#fill(),
          oneGroup: this.#simulation.drawsOneGroup(),
        });
      case "deleteBatch":
        return command.deleteBatch(
          Array.from({ length: random.pick([1, 2, 2, 3, 5, 5, 120]) }, () => this.#simulation.id(client)),
        );
      case "touchAll":
        return command.touchAll();
      case "extensions":
        // No draw, so that runs are the same as before there were names.
        if (++this.#names % 2 === 1)
          return command.fixed(`name w"${"x".repeat(this.#names % 17)}`, "NAMED\r\n");
        return command.gather("extensions");
      case "updateJob":
        return this.#updateJob(client, pri);
      case "inspect":
        return random.chance(0.6)
          ? command.inspectJob(this.#simulation.id(client), this.#simulation.acceptors)
          : command.inspectTube(this.#simulation.tube());
      case "listJobs":
        return command.listJobs(
          this.#choice(),
          random.pick([0, 0, 3, this.#simulation.id(client)]),
          random.pick([0, 3, 20]),
        );
      case "weigh": {
        const tube = random.chance(0.5) ? random.pick(client.watched)! : this.#simulation.tube();
        return client.weigh(tube, random.pick([1, 2, 3, 7, 600]));
      }
      case "reserveOrder":
        client.order = random.pick(["strict", "weighted", "weighted", "weighted", "weighted-time"]);
        return command.fixed(`reserve-order ${client.order}`, "SET\r\n");
      case "inspectWatched":
        return client.inspectWatched();
      case "listAll":
        return command.listAllJobs(
          this.#choice(),
          random.pick([0, 0, 3, this.#simulation.id(client)]),
          random.pick([0, 3]),
        );
      case "batch":
        return this.#ofBatch();
      case "schedule":
        return this.#ofSchedule();
      case "moveJobs":
        return this.#moveJobs();
      case "clearTube": {
        const jobs = this.#choice();
        return this.#simulation.isFree((each) => each.kind === "clear" && isSameChoice(each.jobs, jobs))
          ? command.clearTube(jobs)
          : undefined;
      }
      default:
        return command.wrongOption(this.#simulation.tube(), this.#simulation.body());
    }
  }

  /** How long a batch waits to fill. */
  #fill(): { min?: number; linger?: number | undefined } {
    const { random, fills } = this.#simulation;
    if (!fills) return {};
    return { min: random.pick([1, 2, 2, 3, 3, 5, 12]), linger: random.pick([undefined, 0, 0.5, 1, 1, 3]) };
  }

  /**
   * A put with the key of a job that is there, most often of one that waits for a batch; if none
   * does, one that may wait.
   */
  #putDuplicate(pri: number): Command {
    const random = this.#simulation.random;
    const jobs = [...this.#simulation.model.jobs.values()].filter(({ policy }) => policy.key !== "");
    const waiting = jobs.filter(({ policy }) => policy.after !== 0);
    if (waiting.length === 0 && random.chance(0.5))
      return this.#putInTube(pri, this.#simulation.tube(), "k", random.pick(BATCHES));
    const job = random.pick(waiting.length > 0 && random.chance(0.7) ? waiting : jobs);
    return this.#putInTube(pri, job?.tube.name ?? this.#simulation.tube(), job?.policy.key ?? "k", "");
  }

  #putInTube(pri: number, tube: string, key?: string, after?: string): Command {
    const random = this.#simulation.random;
    const delayMs = random.pick(DELAYS_MS);
    const ttrSeconds = random.between(1, 4);
    const body = this.#simulation.body();
    const options = this.#simulation.policies ? this.#putOptions(pri + body.length, key) : undefined;
    const flows = this.#simulation.flows ? this.#batchOptions(after) : undefined;
    const both = flows === undefined ? options : { ...(options ?? NO_OPTIONS), ...flows };
    return command.putInTube(tube, pri, delayMs, ttrSeconds, body, both);
  }

  /** Draws the batches of a put. With a given `after`, it is of none: most would be refused. */
  #batchOptions(given?: string): Pick<PutOptions, "batch" | "after" | "afterAny"> {
    const random = this.#simulation.random;
    const batch = given === undefined && random.chance(0.7) ? random.pick(BATCHES) : "";
    const after = given ?? (random.chance(0.4) ? random.pick(BATCHES) : "");
    return { batch, after, afterAny: after !== "" && random.chance(0.5) };
  }

  #ofSchedule(): Command | undefined {
    const random = this.#simulation.random;
    const name = random.pick(SCHEDULES);
    switch (random.weighted({ set: 4, delete: 1, pause: 1, resume: 1, run: 1, inspect: 1, list: 0.5 })) {
      case "set": {
        const when = random.pick([
          "every=1",
          "every=2.5",
          "cron=*_*_*_*_*_*",
          "cron=*/3_*_*_*_*_* tz=Asia/Tokyo",
        ]);
        const missed = random.pick(["once", "all", "none"]);
        const options = random.pick(["", " group=g", " ttl=1.5"]) + random.pick(["", " overlap=skip"]);
        const text = `set-schedule ${name} ${this.#simulation.tube()} 5 ${random.pick([0, 0, 1])} 2 3 ${when} missed=${missed}${options}`;
        return command.setSchedule(text, "kkx", /^(?:SET|OUT_OF_MEMORY|DRAINING)\r\n$/);
      }
      case "delete":
        return command.ofBatch(`delete-schedule ${name}`, /^(?:DELETED|NOT_FOUND)\r\n$/);
      case "pause":
        return command.ofBatch(`pause-schedule ${name}`, /^(?:PAUSED|NOT_FOUND)\r\n$/);
      case "resume":
        return command.ofBatch(`resume-schedule ${name}`, /^(?:RESUMED|NOT_FOUND)\r\n$/);
      case "run":
        return this.#simulation.isFree((each) => each.kind === "run" && each.schedule === name)
          ? command.runSchedule(name)
          : undefined;
      case "inspect":
        return command.ofBatch(`inspect-schedule ${name}`, /^(?:OK |NOT_FOUND)/);
      default:
        return command.ofBatch(`list-schedules limit=${random.pick([1, 100])}`, /^OK /);
    }
  }

  #ofBatch(): Command {
    const random = this.#simulation.random;
    const name = random.pick(BATCHES);
    switch (random.weighted({ open: 6, commit: 1, cancel: 0.3, inspect: 1.5, list: 0.5 })) {
      case "open": {
        const keep = random.pick([" keep=0", " keep=1", " keep=4"]);
        return command.ofBatch(`open-batch ${name}${keep}`, /^(?:OPENED|BATCH_EXISTS|OUT_OF_MEMORY)\r\n$/);
      }
      case "commit":
        return command.ofBatch(`commit-batch ${name}`, /^(?:COMMITTED|BATCH_CANCELLED|NOT_FOUND)\r\n$/);
      case "cancel":
        return command.ofBatch(`cancel-batch ${name}`, /^(?:CANCELLED|BATCH_COMPLETE|NOT_FOUND)\r\n$/);
      case "inspect":
        return command.ofBatch(`inspect-batch ${name}`, /^(?:OK |NOT_FOUND)/);
      default:
        return command.ofBatch(`list-batches limit=${random.pick([1, 100])}`, /^OK /);
    }
  }

  /** Draws the options of a put-in-tube; `chance` is any number. */
  #putOptions(chance: number, ownKey?: string): PutOptions {
    const random = this.#simulation.random;
    const key = ownKey ?? random.pick(["", "", "k", "l"]);
    return {
      key,
      keyForMs: key === "" ? 0 : random.pick([0, 0, 700, 3000]),
      untilReserve: key !== "" && random.chance(0.4),
      ttlMs: random.pick([0, 0, 0, 500, 1500, 3000]),
      group: random.pick(["", "", "g", "h", "i"]),
      weight: random.pick([1, 1, 2, 300]),
      cost: random.pick([1, 1, 1, 2, 5]),
      onDuplicate: key === "" ? "refuse" : ON_DUPLICATE[chance % ON_DUPLICATE.length]!,
      ...{ batch: "", after: "", afterAny: false },
    };
  }

  /** Draws settings of a tube, of some or of all; later draws remove them soon. */
  #setTube(): Command | undefined {
    const random = this.#simulation.random;
    const pattern = random.pick([this.#simulation.tube(), this.#simulation.tube(), "wide-*", "*"]);
    if (!this.#simulation.isFree((each) => each.kind === "set" && each.pattern === pattern)) return undefined;
    const drawn: command.SettingValueChanges = {
      maxAttempts: random.pick([undefined, 1, 2]),
      backoffMs: random.pick([undefined, undefined, 700]),
      ttlMs: random.pick([undefined, undefined, 2000]),
      expire: random.pick([undefined, "bury", "delete"] as const),
      maxJobs: random.pick([undefined, undefined, 2, 5]),
      maxReserved: random.pick([undefined, undefined, 1, 2]),
      groupMaxReserved: random.pick([undefined, 1, 2]),
      paused: random.pick([undefined, undefined, "no", "yes"] as const),
      ...(this.#simulation.hasRates ? this.#rateSettings() : {}),
      // Without moves of jobs nothing is drawn for them.
      ...(this.#simulation.jobMoves > 0 ? this.#farSettings() : {}),
    };
    const names = Object.keys(drawn) as (keyof typeof drawn)[];
    const some = names.filter(() => random.chance(0.35));
    const values = some.length === 0 ? names : some;
    return command.setTube(pattern, {
      ...Object.fromEntries(values.map((name) => [name, drawn[name]])),
      ...(this.#simulation.cancels ? this.#keptEnds() : {}),
    });
  }

  #keptEnds(): command.SettingValueChanges {
    const random = this.#simulation.random;
    return random.chance(0.6) ? { keepFinished: random.pick([undefined, 1, 3, 50, 50, 50]) } : {};
  }

  #rateSettings(): command.SettingValueChanges {
    const random = this.#simulation.random;
    return {
      rate: random.pick([undefined, undefined, ...RATES]),
      burst: random.pick([undefined, 1, 3]),
      groupRate: random.pick([undefined, undefined, ...RATES]),
      groupBurst: random.pick([undefined, 1, 3]),
    };
  }

  #farSettings(): command.SettingValueChanges {
    const random = this.#simulation.random;
    return {
      deadLetter: random.pick([undefined, this.#simulation.tube(), this.#simulation.tube()]),
      maxBytes: random.pick([undefined, undefined, 30, 2000]),
    };
  }

  #updateJob(client: SimClient, pri: number): Command {
    const random = this.#simulation.random;
    const changes = [
      ` pri=${pri}`,
      ` delay=${random.pick(DELAYS_MS) / 1000}`,
      ` ttr=${random.between(1, 4)}`,
      ...(this.#simulation.policies ? [` ttl=${random.pick([0, 0.5, 2])}`] : []),
    ];
    const made = changes.filter(() => random.chance(0.5));
    if (this.#simulation.jobMoves > 0 && random.chance(0.4)) made.push(` tube=${this.#simulation.tube()}`);
    return command.byId("update-job", this.#simulation.id(client), made.join("") || changes[0]);
  }

  #moveJobs(): Command | undefined {
    const random = this.#simulation.random;
    const { states, ...choice } = this.#choice();
    const movable = states.filter((state) => state !== "reserved");
    const some = random.chance(0.8) ? random.pick([...this.#simulation.model.jobs.values()]) : undefined;
    const tube = some?.tube.name ?? choice.tube;
    const target = this.#simulation.policies && random.chance(0.1) ? "*" : this.#simulation.tube();
    const jobs = {
      ...choice,
      tube,
      states: movable.length === 0 ? (["ready", "delayed"] as const) : movable,
    };
    // Engines do not tell whose move it is.
    const isFree = this.#simulation.isFree(
      (each) =>
        each.kind === "move" &&
        each.tube === tube &&
        [target, each.target].some((to) => to === "*" || (to === each.target && to === target)),
    );
    return isFree ? command.moveJobs(jobs, target, random.chance(0.2)) : undefined;
  }

  #choice(): JobChoice {
    const random = this.#simulation.random;
    const states = STATES.filter(() => random.chance(0.6));
    return {
      tube: this.#simulation.tube(),
      states: states.length === 0 ? ["ready"] : states,
      contains: random.chance(0.7) ? undefined : random.pick(["a", "kk", "z", "e"]),
      group: this.#simulation.policies && random.chance(0.3) ? random.pick(["g", "h"]) : undefined,
      limit: random.chance(0.5) ? undefined : random.between(1, 4),
    };
  }
}
