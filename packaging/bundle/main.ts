// Entry point of a bundle.

import { run } from "../../src/server/run.ts";

void run();
