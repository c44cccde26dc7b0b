// Caveats of the figures, derived from how they were measured.
import type { ResultLine } from "../result/result-line.ts";

export function caveats(lines: readonly ResultLine[]): string[] {
  const { generator, machine } = lines[0]!;
  const said = [
    `Server and load generator share ${machine.cores} cores and a loopback interface. There is no network in these figures, and a ` +
      "server that leaves more CPU to the generator gets more load. On another machine, and with more cores, the ratios differ.",
    "Each turn lasts seconds on a fresh server. Days of traffic, memory that fragments and logs that are compacted don't show.",
    "Latency without a rate is that of a closed loop: clients wait for replies before they send more, so it mostly says how many " +
      "commands were under way. For what a client would feel, look at the rate sweep, where latency counts from the time at which a " +
      "command should have been sent.",
    "p99.9 and max of a turn of a second rest on few replies. Compare them only where curves stay apart over several turns.",
    "CPU per command is the user and system time of the server process with all its threads; what the kernel does for it elsewhere " +
      "isn't counted. It is read in steps of 10 ms.",
    "Bodies are of one size in each case and hold the same letters over and over; real jobs vary.",
  ];
  if (lines.some(({ busyLoops }) => busyLoops !== undefined)) {
    said.push(
      "In the cases with busy cores, processes that do nothing but turn compete with server and generator for them, with the same " +
        "priority. How the kernel shares the cores out differs from run to run: look at the range, and at the CPU per command.",
    );
  }
  if (generator === "workers") {
    said.push(
      "The load came from Node workers, which take several times the CPU of the generator in C. `npm run bench:native` measures the " +
        "servers with less of the generator in the result.",
    );
  }
  if (machine.disk.startsWith("tmpfs"))
    said.push("The logs were in memory (tmpfs): the durable cases show no cost of a disk.");
  else
    said.push(
      `The durable cases measure this disk (${machine.disk}), with its caches and whatever a hypervisor makes of a sync.`,
    );
  if (lines.some(({ servers }) => servers.some(({ skipped }) => skipped !== undefined))) {
    said.push("Some cases were skipped for a server; the table says why.");
  }
  return said;
}
