// npm run bench: measures our server and beanstalkd with load from a pool of Node workers.
import { bench } from "./bench.ts";
import { WorkerLoad } from "./load/worker-load.ts";
import { parseOptions } from "./options.ts";
import { runEntry } from "./run-entry.ts";

await runEntry(async () => {
  const args = process.argv.slice(2);
  const scenario = args[args.indexOf("--scenario") + 1] ?? "";
  if (["replicated", "fail-over"].includes(scenario)) {
    const { groupBench } = await import("./replica/group-bench.ts");
    await groupBench(args);
    return;
  }
  if (scenario === "http") {
    const { httpBench } = await import("./http/http-bench.ts");
    await httpBench(args);
    return;
  }
  if (scenario === "tls") {
    const { tlsBench } = await import("./tls/tls-bench.ts");
    await tlsBench(args);
    return;
  }
  if (scenario === "scale") {
    const { scaleBench, scaleOptions } = await import("./scale/scale-bench.ts");
    const options = scaleOptions("npm run bench --", args);
    const load = new WorkerLoad(options.generators);
    try {
      await scaleBench(options, load);
    } finally {
      await load.close();
    }
    return;
  }
  const options = parseOptions(
    "npm run bench --",
    "Measures runnerbean and, where it is installed, beanstalkd.",
  );
  const load = new WorkerLoad(options.generators);
  try {
    await bench(options, load);
  } finally {
    await load.close();
  }
});
