// The cores that this process may use, keeping processes to some of them, and how long others used
// them.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

/** The numbers in a list of the kernel's such as 0-3,8. */
export function coresIn(list: string): number[] {
  return list
    .trim()
    .split(",")
    .flatMap((part) => {
      const [first = Number.NaN, last = first] = part.split("-").map(Number);
      return Array.from({ length: last - first + 1 }, (_, index) => first + index);
    });
}

export function usableCores(): number[] {
  const status = readFileSync("/proc/self/status", "utf8");
  return coresIn(/^Cpus_allowed_list:\s+(\S+)/m.exec(status)?.[1] ?? "0");
}

/** The words before a command that keep it to these cores. */
export const keptTo = (cores: readonly number[]): string[] => ["taskset", "-c", cores.join(",")];

export function canKeep(): boolean {
  try {
    execFileSync("taskset", ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/** Keeps all threads of this process, and the processes that it will start, to these cores. */
export function keepSelfTo(cores: readonly number[]): void {
  execFileSync("taskset", ["-a", "-p", "-c", cores.join(","), `${process.pid}`], { stdio: "ignore" });
}

/** Seconds in which these cores worked for anyone, since the machine's start. */
export function busySeconds(cores: readonly number[]): number {
  const lines = readFileSync("/proc/stat", "utf8").split("\n");
  const ticks = Number(execFileSync("getconf", ["CLK_TCK"], { encoding: "utf8" }));
  return cores.reduce((sum, core) => {
    const line = lines.find((each) => each.startsWith(`cpu${core} `));
    const [user = 0, nice = 0, system = 0, , , irq = 0, softIrq = 0, stolen = 0] =
      line?.split(/\s+/).slice(1).map(Number) ?? [];
    return sum + (user + nice + system + irq + softIrq + stolen) / ticks;
  }, 0);
}
