// npm run bench -- --scenario http: requests from autocannon to our server, without and with -f 0,
// beside a bare Fastify.
//
// All take turns in each case, so that load on the machine affects all of them; the ratios of the
// medians are what counts.

import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

const TUBES = 10_000;
const SCRAPE_MS = 5000;
const LIST_MS = 1000;
const CHANGES_A_SECOND = 10;

/** Puts a job into each tube once a second, by the protocol. */
export async function changeTubes(port: number): Promise<never> {
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

/**
 * Scrapes metrics each 5 s, lists tubes and asks for totals each second, and browses jobs in a
 * loop.
 */
export function askForAll(url: string): Promise<unknown> {
  return Promise.all([
    ask(`${url}/metrics`, SCRAPE_MS),
    ask(`${url}/v1/tubes?sort=oldest&limit=1000&fresh=true`, LIST_MS),
    ask(`${url}/v1/stats`, LIST_MS),
    ask(`${url}/v1/tubes/load-1/jobs?limit=100`, 0),
  ]);
}

async function ask(url: string, everyMs: number): Promise<never> {
  for (;;) {
    await (await fetch(url)).arrayBuffer();
    await sleep(everyMs);
  }
}
