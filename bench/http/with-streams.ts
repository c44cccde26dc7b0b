// A server whose dashboard is open, as a contender of the bench: streams of the overview and of the tubes, which are read.
//
//   npm run bench:native -- --scenario put-reserve-delete --turns 5 --theirs "http=bin/runnerbean --http 127.0.0.1:0" \
//     --theirs "streams=node bench/http/with-streams.ts"

import { startWithHttp } from "./start-with-http.ts";

const VIEWS = ["overview", "tubes"];

const url = await startWithHttp(process.argv.slice(2));
await Promise.all(
  VIEWS.map(async (view) => {
    const response = await fetch(`${url}/v1/events?view=${view}`, {
      headers: { accept: "text/event-stream" },
    });
    if (response.status !== 200 || response.body === null) throw new Error(`${view}: ${response.status}`);
    let events = 0;
    for await (const chunk of response.body) events += Buffer.from(chunk).length > 0 ? 1 : 0;
    throw new Error(`the stream of ${view} has ended after ${events} parts`);
  }),
);
