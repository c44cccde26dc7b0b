// npm run build: writes the bundle to dist/. What other builds made there stays: executables,
// packages, an image.

import { rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { bundledFiles } from "./bundle.ts";
import { writeBundle } from "./write-bundle.ts";

const DIST = fileURLToPath(new URL("../../dist", import.meta.url));

const files = await bundledFiles();
// Also files that an older bundle had and this one has not.
for (const name of new Set([...files.keys()].map((path) => path.split("/")[0]!)))
  rmSync(join(DIST, name), { recursive: true, force: true });
writeBundle(files, DIST);
