// npm run build: writes the bundle to dist/.

import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { bundledFiles } from "./bundle.ts";

const DIST = fileURLToPath(new URL("../../dist", import.meta.url));

const files = await bundledFiles();
rmSync(DIST, { recursive: true, force: true });
for (const [path, bytes] of files) {
  mkdirSync(dirname(join(DIST, path)), { recursive: true });
  writeFileSync(join(DIST, path), bytes);
}
