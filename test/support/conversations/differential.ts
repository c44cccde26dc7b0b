// Runs one random conversation against two fresh servers.

import { type ServerProcess, startServer } from "../server/server-process.ts";
import { type Topology, topologyFlags, topologyName } from "../topologies.ts";
import { MAX_JOB_BYTES } from "./conversation-generator.ts";
import { Lockstep, type LockstepResult } from "./lockstep.ts";
import { type Address, LockstepSide } from "./lockstep-side.ts";
import { InconclusiveError } from "./lockstep-state.ts";

export interface DifferentialOptions {
  readonly seed: number;
  readonly steps: number;
  /**
   * Settings of our server; "beanstalkd-1.12" puts a second beanstalkd in its place, to prove the
   * harness.
   */
  readonly tested: Topology | "beanstalkd-1.12";
  /** Time after which a reply counts as missing, ms. */
  readonly settleMs?: number;
  /** Attempts while the machine is too slow to tell. */
  readonly attempts?: number;
  /** Stands between the tested server and its clients. */
  readonly through?: (address: Address) => Promise<Address>;
}

const CLIENTS = 5;
const ATTEMPTS = 4;

/**
 * Runs the conversation; once more, some times, where the machine was too slow to tell whether the
 * servers differ.
 */
export async function runDifferential(options: DifferentialOptions): Promise<LockstepResult> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await runOnce(options);
    } catch (error) {
      if (!(error instanceof InconclusiveError) || attempt >= (options.attempts ?? ATTEMPTS)) throw error;
      console.error(
        `seed ${options.seed}: the machine was too slow, again (${error.message.split("\n", 1)[0]})`,
      );
    }
  }
}

async function runOnce(options: DifferentialOptions): Promise<LockstepResult> {
  const size = ["-z", `${MAX_JOB_BYTES}`];
  const servers: ServerProcess[] = [];
  const sides: LockstepSide[] = [];
  try {
    const reference = await startServer({ kind: "beanstalkd-1.12", flags: size });
    servers.push(reference);
    const tested = await startServer(
      options.tested === "beanstalkd-1.12"
        ? { kind: "beanstalkd-1.12", flags: size }
        : {
            kind: "ours",
            flags: [...size, ...topologyFlags(options.tested)],
          },
    );
    servers.push(tested);
    const testedAddress = addressOf(tested);
    sides.push(new LockstepSide("beanstalkd 1.12", addressOf(reference)));
    sides.push(
      new LockstepSide(nameOf(options.tested), (await options.through?.(testedAddress)) ?? testedAddress),
    );
    const [left, right] = sides as [LockstepSide, LockstepSide];
    const lockstep = new Lockstep(left, right, {
      seed: options.seed,
      steps: options.steps,
      clientCount: CLIENTS,
      settleMs: options.settleMs ?? 8000,
      drain: () => {
        for (const server of servers) server.signal("SIGUSR1");
      },
    });
    const result = await lockstep.run();
    await expectAlive(servers);
    return result;
  } catch (error) {
    await expectAlive(servers, error);
    throw error;
  } finally {
    for (const side of sides) side.closeAll();
    await Promise.all(servers.map((server) => server.stop()));
  }
}

/** A server that has ended explains what went wrong better than the reply that is missing. */
async function expectAlive(servers: readonly ServerProcess[], cause?: unknown): Promise<void> {
  for (const server of servers) {
    if (!server.hasExited) continue;
    const exit = JSON.stringify(await server.exited);
    throw new Error(`${server.kind} ended by itself (${exit}): ${server.stdout}${server.stderr}`, { cause });
  }
}

function addressOf(server: ServerProcess): Address {
  return { port: server.port, host: "127.0.0.1" };
}

function nameOf(tested: DifferentialOptions["tested"]): string {
  return tested === "beanstalkd-1.12" ? "a second beanstalkd 1.12" : `ours (${topologyName(tested)})`;
}
