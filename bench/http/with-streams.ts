// A server whose dashboard is open, as a contender of the bench: streams of its totals and of the
// tubes, which are read.
//
//   npm run bench:native -- --scenario put-reserve-delete --turns 5 \
//     --theirs "http=bin/runnerbean --http 127.0.0.1:0" \
//     --theirs "streams=node bench/http/with-streams.ts"

import { serveBeside } from "./serve-beside.ts";

const PATHS = ["/v1/server", "/v1/attention", "/v1/tubes?sort=oldest&limit=50"];

async function read(url: string, path: string): Promise<void> {
  const response = await fetch(`${url}/v1/events?get=${encodeURIComponent(path)}`, {
    headers: { accept: "text/event-stream" },
  });
  if (response.status !== 200 || response.body === null) throw new Error(`${path}: ${response.status}`);
  for await (const _ of response.body);
}

await serveBeside(import.meta.filename, (url) => Promise.all(PATHS.map((path) => read(url, path))));
