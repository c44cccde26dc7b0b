// Our server with an HTTP side, and a process that keeps it busy: a contender of the bench.
//
// The server is the process that the bench started, so that the bench sees its CPU time and stops
// it. The load ends when the server no longer answers.

import { askForAll, changeTubes } from "./http-load.ts";
import { serveBeside } from "./serve-beside.ts";

await serveBeside(import.meta.filename, (url, port) => Promise.all([changeTubes(port), askForAll(url)]));
