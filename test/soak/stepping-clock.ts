// Preloaded into a server (`--import`), in every thread: its wall clock is ahead by what a file says, and jumps when the
// file changes. Its monotonic clock stays as it is, as on a machine whose administrator sets the time.

import { readFileSync } from "node:fs";

const { SOAK_CLOCK_FILE: path } = process.env;
if (path === undefined) throw new Error("SOAK_CLOCK_FILE is not set");

const realNow = Date.now.bind(Date);
Date.now = () => realNow() + Number(readFileSync(path, "latin1"));
