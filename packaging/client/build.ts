// Part of npm run build: writes the client to dist/client.

import { fileURLToPath } from "node:url";
import { writeBundle } from "../bundle/write-bundle.ts";
import { clientFiles } from "./client-files.ts";

const CLIENT = fileURLToPath(new URL("../../dist/client", import.meta.url));

writeBundle(await clientFiles(), CLIENT);
