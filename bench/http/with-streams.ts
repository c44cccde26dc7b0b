// A server whose dashboard is open, as a contender of the bench: streams of the overview and of the
// tubes, which are read.
//
//   npm run bench:native -- --scenario put-reserve-delete --turns 5 \
//     --theirs "http=bin/runnerbean --http 127.0.0.1:0" \
//     --theirs "streams=node bench/http/with-streams.ts"

import { serveBeside } from "./serve-beside.ts";

const VIEWS = ["overview", "tubes"];

async function read(url: string, view: string): Promise<void> {
  const response = await fetch(`${url}/v1/events?view=${view}`, { headers: { accept: "text/event-stream" } });
  if (response.status !== 200 || response.body === null) throw new Error(`${view}: ${response.status}`);
  for await (const _ of response.body);
}

await serveBeside(import.meta.filename, (url) => Promise.all(VIEWS.map((view) => read(url, view))));
