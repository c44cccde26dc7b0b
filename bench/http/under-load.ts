// A server whose HTTP side has much to do, as a contender of the bench: how much do its other clients notice?
//
//   npm run bench:native -- --scenario put-reserve-delete --turns 5 --theirs "http=bin/runnerbean --http 127.0.0.1:0" \
//     --theirs "load=node bench/http/under-load.ts"
//
// Load, scrapers and servers share the cores of the machine: whose-load.ts shows which part of the difference is the server's own.

import { askForAll, changeTubes } from "./http-load.ts";
import { serveBeside } from "./serve-beside.ts";

await serveBeside(import.meta.filename, (url, port) => Promise.all([changeTubes(port), askForAll(url)]));
