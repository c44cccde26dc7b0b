// npm run build:deb: writes dist/runnerbean_VERSION_ARCH.deb. Arguments are architectures whose
// executables are in dist/; this machine's by default.

import { statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import manifest from "../../package.json" with { type: "json" };
import { chosenArchitectures } from "../node.ts";
import { makeDebianPackage } from "./debian.ts";

const DIST = fileURLToPath(new URL("../../dist", import.meta.url));

for (const architecture of chosenArchitectures(
  "build:deb",
  "Writes dist/runnerbean_VERSION_ARCH.deb, from the executables in dist/.",
)) {
  const file = await makeDebianPackage({
    executable: join(DIST, `runnerbean-linux-${architecture}`),
    bundle: DIST,
    architecture,
    version: manifest.version,
    output: DIST,
  });
  process.stdout.write(`${file}: ${(statSync(file).size / 1e6).toFixed(1)} MB\n`);
}
