// npm run build:packages: writes the packages for npm's registry to dist/packages. Arguments are
// architectures of Node; this machine's by default.

import { statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chosenArchitectures } from "../node.ts";
import { packClient, packNode, packServer } from "./packages.ts";

const DIST = fileURLToPath(new URL("../../dist", import.meta.url));
const OUTPUT = join(DIST, "packages");

const chosen = chosenArchitectures("build:packages", "Writes the packages for npm into dist/packages.");
const files = [
  packServer(DIST, OUTPUT),
  packClient(DIST, OUTPUT),
  ...chosen.map((each) => packNode(each, OUTPUT)),
];
for (const file of files) process.stdout.write(`${file}: ${(statSync(file).size / 1e6).toFixed(2)} MB\n`);
