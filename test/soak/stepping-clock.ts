// Preloaded into every thread of a server (`--import`): shifts its wall clock by the offset in a
// file, and jumps when the file changes. The monotonic clock stays the same, as when an
// administrator sets the time.

import { readFileSync } from "node:fs";

const { SOAK_CLOCK_FILE: path } = process.env;
if (path === undefined) throw new Error("SOAK_CLOCK_FILE is not set");

const realNow = Date.now.bind(Date);
Date.now = () => realNow() + Number(readFileSync(path, "latin1"));
