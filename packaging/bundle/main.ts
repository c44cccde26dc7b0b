// What a bundle starts with.

import { run } from "../../src/server/run.ts";

void run();
