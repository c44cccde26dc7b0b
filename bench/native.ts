// npm run bench:native: the same bench with load from the generator in C, which is built first.
import { bench } from "./bench.ts";
import { NativeLoad } from "./load/native-load.ts";
import { parseOptions } from "./options.ts";
import { runEntry } from "./run-entry.ts";

await runEntry(async () => {
  const args = process.argv.slice(2);
  if (args[args.indexOf("--scenario") + 1] === "scale") {
    const { scaleBench, scaleOptions } = await import("./scale/scale-bench.ts");
    const options = scaleOptions("npm run bench:native --", args);
    await scaleBench(options, new NativeLoad(options.generators));
    return;
  }
  const options = parseOptions(
    "npm run bench:native --",
    "The bench with load from the generator in native-bench/.",
  );
  await bench(options, new NativeLoad(options.generators));
});
