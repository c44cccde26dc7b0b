// npm run bench: measures our server and beanstalkd with load from a pool of Node workers.
import { bench } from "./bench.ts";
import { WorkerLoad } from "./load/worker-load.ts";
import { parseOptions } from "./options.ts";
import { runEntry } from "./run-entry.ts";

await runEntry(async () => {
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
