// npm run bench:native: the same bench with load from the generator in C, which is built first.
import { bench } from "./bench.ts";
import { NativeLoad } from "./load/native-load.ts";
import { parseOptions } from "./options.ts";
import { runEntry } from "./run-entry.ts";

await runEntry(async () => {
  const options = parseOptions(
    "npm run bench:native --",
    "The bench with load from the generator in native-bench/.",
  );
  await bench(options, new NativeLoad(options.generators));
});
