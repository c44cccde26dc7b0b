// npm run build: writes the bundle to dist/.

import { rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { bundledFiles } from "./bundle.ts";
import { writeBundle } from "./write-bundle.ts";

const DIST = fileURLToPath(new URL("../../dist", import.meta.url));

const files = await bundledFiles();
rmSync(DIST, { recursive: true, force: true });
writeBundle(files, DIST);
