// npm run build:image: writes dist/image, from which a container engine builds the image.

import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { HERE } from "../node.ts";
import { makeContext } from "./context.ts";

const DIST = fileURLToPath(new URL("../../dist", import.meta.url));

makeContext(join(DIST, "image"), {
  executables: { [HERE]: join(DIST, `runnerbean-linux-${HERE}`) },
  bundle: DIST,
});
process.stdout.write(`docker build -t runnerbean ${join(DIST, "image")}\n`);
