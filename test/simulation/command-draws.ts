// Random commands of beanstalkd's protocol.

import type { Command } from "./client/command.ts";
import * as command from "./client/command.ts";
import type { SimClient } from "./client/sim-client.ts";
import type { ExtensionDraws } from "./extension-draws.ts";
import { type SimulationState, WIDE_TUBES } from "./simulation-state.ts";
import type { ByIdCommand } from "./witness/command-sink.ts";

/** Share of commands that beanstalkd does not have. */
const EXTENSION_SHARE = 0.2;

/** The same where jobs have options and tubes settings. */
const POLICY_SHARE = 0.5;

/** Parts of the simulation that this file uses. */
interface Simulation extends SimulationState {
  readonly extensionDraws: ExtensionDraws;
}

export class CommandDraws {
  readonly #simulation: Simulation;

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
  }

  draw(client: SimClient): Command | undefined {
    const random = this.#simulation.random;
    const share = this.#simulation.policies || this.#simulation.flows ? POLICY_SHARE : EXTENSION_SHARE;
    if (this.#simulation.extensions && random.chance(share))
      return this.#simulation.extensionDraws.drawExtension(client);
    const pri = random.pick([0, 1, 1, 5, 1024, 4294967295]);
    const delaySeconds = random.pick([0, 0, 0, 1, 2]);
    const kind = this.#simulation.weighted({
      put: this.#simulation.puts,
      reserve: this.#simulation.reserves,
      byId: 12,
      read: 4,
      watch: 4,
      ignore: 2,
      use: 3,
      kick: 2,
      kickJob: 2,
      pause: 1,
      gather: 1,
      fixed: 2,
      quit: 0.1,
    });
    switch (kind) {
      case "put":
        return command.put(client.used, pri, delaySeconds, random.between(1, 4), this.#simulation.body());
      case "reserve":
        return command.reserve(client, random.pick([undefined, undefined, 0, 1, 1, 2]));
      case "byId":
        return this.#byId(client, pri, delaySeconds);
      case "read":
        return this.#drawRead(client);
      case "watch":
        return random.chance(0.03) ? this.#watchMany(client) : this.watch(client, this.#simulation.tube());
      case "ignore":
        return this.#ignore(client);
      case "use":
        client.used = this.#simulation.tube();
        return command.fixed(`use ${client.used}`, `USING ${client.used}\r\n`);
      case "kick":
        return command.kick(client.used, random.between(0, 3));
      case "kickJob": {
        const id = this.#simulation.id(client);
        return this.#simulation.isFree((each) => each.kind === "kick-job" && each.id === id)
          ? command.kickJob(id)
          : undefined;
      }
      case "pause": {
        const [tube, seconds] = [this.#simulation.tube(), random.between(0, 2)];
        const matches = (each: Command): boolean =>
          each.kind === "pause" && each.tube === tube && each.seconds === seconds;
        return this.#simulation.isFree(matches) ? command.pause(tube, seconds) : undefined;
      }
      case "gather":
        return command.gather(random.pick(["stats", "list-tubes"]));
      case "quit":
        return client.pendingCount === 0 ? command.quit() : undefined;
      default:
        return random.pick([
          command.fixed("nonsense", "UNKNOWN_COMMAND\r\n"),
          command.fixed("peek x", "BAD_FORMAT\r\n"),
          command.fixed("x".repeat(random.between(223, 500)), "BAD_FORMAT\r\n"),
          command.badPut(this.#simulation.body()),
          command.tooBigPut(this.#simulation.jobBytesMax + random.between(1, 100)),
          command.fixed("list-tube-used", `USING ${client.used}\r\n`),
          listWatched(client),
        ]);
    }
  }

  #byId(client: SimClient, pri: number, delaySeconds: number): Command {
    const name: ByIdCommand = this.#simulation.weighted({
      delete: 4,
      release: 4,
      bury: 2,
      touch: 2,
      "reserve-job": 2,
    });
    // Without the commands of our own, nothing more is drawn. Five reasons and the rest of a record
    // fit into the small messages of simulated rings to the log.
    const reason = this.#simulation.extensions
      ? this.#simulation.random.pick(["", "", " reason=no%20disk", ` reason=${"x%20y".repeat(20)}`])
      : "";
    const numbers = name === "release" ? ` ${pri} ${delaySeconds}` : ` ${pri}`;
    const rest = name === "release" || name === "bury" ? `${numbers}${reason}` : "";
    return command.byId(name, this.#simulation.id(client), rest);
  }

  #drawRead(client: SimClient): Command {
    const random = this.#simulation.random;
    switch (random.between(0, 3)) {
      case 0:
        return command.peek(this.#simulation.id(client));
      case 1:
        return command.peekOf(client.used, random.pick(["ready", "delayed", "buried"]));
      case 2:
        return command.statsJob(this.#simulation.id(client));
      default:
        return command.statsTube(this.#simulation.tube());
    }
  }

  watch(client: SimClient, tube: string): Command {
    if (!client.watched.includes(tube)) client.watched.push(tube);
    return command.fixed(`watch ${tube}`, `WATCHING ${client.watched.length}\r\n`);
  }

  /** Watches so many tubes that the client is a wide waiter. */
  #watchMany(client: SimClient): Command | undefined {
    for (const tube of WIDE_TUBES.slice(1)) {
      const each = this.watch(client, tube);
      this.#simulation.say(`client ${client.name}: ${each.text}`);
      client.send(each);
    }
    return this.watch(client, WIDE_TUBES[0]!);
  }

  #ignore(client: SimClient): Command {
    return this.ignoreTube(
      client,
      this.#simulation.random.chance(0.7)
        ? this.#simulation.random.pick(client.watched)!
        : this.#simulation.tube(),
    );
  }

  ignoreTube(client: SimClient, tube: string): Command {
    const at = client.watched.indexOf(tube);
    if (at >= 0 && client.watched.length === 1) return command.fixed(`ignore ${tube}`, "NOT_IGNORED\r\n");
    if (at >= 0) {
      client.weights.delete(tube);
      const last = client.watched.pop()!;
      if (last !== tube) client.watched[at] = last;
    }
    return command.fixed(`ignore ${tube}`, `WATCHING ${client.watched.length}\r\n`);
  }
}

function listWatched(client: SimClient): Command {
  const text = `---\n${client.watched.map((tube) => `- ${tube}\n`).join("")}`;
  return command.fixed("list-tubes-watched", `OK ${text.length}\r\n${text}\r\n`);
}
