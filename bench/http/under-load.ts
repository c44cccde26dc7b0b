// A server whose HTTP side has much to do, as a contender of the bench: how much do its other clients notice?
//
//   npm run bench:native -- --scenario put-reserve-delete --turns 5 --theirs "http=bin/runnerbean --http 127.0.0.1:0" \
//     --theirs "load=node bench/http/under-load.ts"
//
// 10,000 tubes change each second, metrics are scraped each 5 s, lists of tubes and totals are asked for each second, and
// jobs are browsed in a loop.

import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { serveBeside } from "./serve-beside.ts";

const TUBES = 10_000;
const SCRAPE_MS = 5000;
const LIST_MS = 1000;
const CHANGES_A_SECOND = 10;

async function changeTubes(port: number): Promise<never> {
  const socket = connect(port, "127.0.0.1");
  socket.on("data", () => {});
  for (let from = 0; ; from = (from + TUBES / CHANGES_A_SECOND) % TUBES) {
    let text = "";
    for (let tube = from; tube < from + TUBES / CHANGES_A_SECOND; tube++)
      text += `use load-${tube}\r\nput 0 1000 60 1\r\nx\r\n`;
    socket.write(text);
    await sleep(1000 / CHANGES_A_SECOND);
  }
}

async function ask(url: string, everyMs: number): Promise<never> {
  for (;;) {
    await (await fetch(url)).arrayBuffer();
    await sleep(everyMs);
  }
}

await serveBeside(import.meta.filename, (url, port) =>
  Promise.all([
    changeTubes(port),
    ask(`${url}/metrics`, SCRAPE_MS),
    ask(`${url}/v1/tubes?sort=oldest&limit=1000&fresh=true`, LIST_MS),
    ask(`${url}/v1/stats`, LIST_MS),
    ask(`${url}/v1/tubes/load-1/jobs?limit=100`, 0),
  ]),
);
