// npm run build:deb: writes dist/runnerbean_VERSION_ARCH.deb.

import { statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import manifest from "../../package.json" with { type: "json" };
import { HERE } from "../node.ts";
import { makeDebianPackage } from "./debian.ts";

const DIST = fileURLToPath(new URL("../../dist", import.meta.url));

const file = await makeDebianPackage({
  executable: join(DIST, `runnerbean-linux-${HERE}`),
  bundle: DIST,
  architecture: HERE,
  version: manifest.version,
  output: DIST,
});
process.stdout.write(`${file}: ${(statSync(file).size / 1e6).toFixed(1)} MB\n`);
