// The text of `extensions`: the extended commands, and how often each was used.

import { Counter, countersOf, rolesOf, type Topology } from "../../message/topology.ts";
import { commandName, EXTENSIONS } from "../../protocol/commands.ts";

/** Composes the text. The shards must have updated their counters. */
export function extensionsText(topology: Topology): string {
  const counters = Array.from({ length: rolesOf(topology) }, (_, role) => countersOf(topology, role));
  const rows = EXTENSIONS.map((command) => {
    const counter = Counter.Commands + command.op;
    return `${commandName(command)}: ${counters.reduce((total, each) => total + each[counter]!, 0)}\n`;
  });
  return `---\n${rows.join("")}`;
}
