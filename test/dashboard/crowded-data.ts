// A server with everything as long and as many as it may be: names of 200 characters, thousands of
// tubes and connections. For tests and screenshots.

import assert from "node:assert/strict";
import { WireClient } from "../support/server/wire-client.ts";

/** Names without a place to break. */
const longName = (start: string, length = 200): string =>
  start + "abcdefghij".repeat(20).slice(start.length, length);

const LONG_TUBE: string = longName("orders-of-");
export const LONG_DEAD: string = longName("dead-of-");
const LONG_BATCH: string = longName("import-of-");
const LONG_SCHEDULE: string = longName("nightly-", 128);
const LONG_WORKER = longName("worker-", 63);
const REASON = "SMTP%20550:%20no%20such%20user%20at%20this%20host;%20".repeat(3);
const AT_ONCE = 500;

/** Sends a command that must succeed: a page without the data would pass every test. */
async function say(client: WireClient, command: string, answer: RegExp): Promise<string> {
  const { line } = await client.ask(command);
  assert.match(line, answer, command);
  return line;
}

interface Crowd {
  readonly tubes: number;
  readonly clients: number;
}

/** Fills a server, and returns the connections, which stay open. */
export async function crowd(port: number, { tubes, clients }: Crowd): Promise<WireClient[]> {
  const connect = () => WireClient.connect({ port, host: "127.0.0.1" });
  const client = await connect();
  const put = async (tube: string, options = "", body = "long ".repeat(40)): Promise<string> =>
    (await say(client, `put-in-tube ${tube} 0 0 600 ${body.length}${options}\r\n${body}`, /^INSERTED/)).split(
      " ",
    )[1]!;
  const reserve = (id: string): Promise<string> => say(client, `reserve-job ${id}`, /^RESERVED/);
  const bury = (id: string): Promise<string> => say(client, `bury ${id} 0 reason=${REASON}`, /^BURIED/);
  await say(client, `name ${LONG_WORKER}`, /^NAMED/);
  await say(client, `set-tube * max-attempts=2 dead-letter=${LONG_DEAD}`, /^SET/);
  await say(client, `set-tube ${LONG_TUBE} backoff=10 rate=1000000/3600`, /^SET/);
  for (let n = 0; n < 3; n++) await put(LONG_TUBE);
  for (let n = 0; n < 60; n++) {
    const id = await put(
      n < 30 ? LONG_TUBE : longName(`orders-${n}-`),
      n < 30 ? "" : ` group=${LONG_TUBE.slice(0, 100)}`,
    );
    for (let attempt = 0; attempt < 2; attempt++) {
      await reserve(id);
      await say(client, `release ${id} 0 0 reason=${REASON}`, /^RELEASED/);
    }
  }
  for (let n = 0; n < 4; n++) {
    const id = await put(LONG_TUBE);
    await reserve(id);
    await bury(id);
  }
  await say(client, `set-schedule ${LONG_SCHEDULE} ${LONG_TUBE} 0 0 60 1 every=86399\r\nx`, /^SET/);
  await say(client, `open-batch ${LONG_BATCH}`, /^OPENED/);
  for (let n = 0; n < 4; n++) {
    const id = await put(LONG_TUBE, ` batch=${LONG_BATCH}`);
    await reserve(id);
    if (n < 2) await bury(id);
    else if (n < 3) await say(client, `delete ${id}`, /^DELETED/);
  }
  await say(client, `commit-batch ${LONG_BATCH}`, /^COMMITTED/);
  for (let from = 0; from < tubes; from += AT_ONCE) {
    const names = Array.from({ length: Math.min(AT_ONCE, tubes - from) }, (_, n) => `customer-${from + n}`);
    client.send(names.map((name) => `put-in-tube ${name} 0 0 60 1\r\nx\r\n`).join(""));
    for (const _ of names) await client.readReply(60_000);
  }
  const others: WireClient[] = [client];
  for (let from = 1; from < clients; from += AT_ONCE)
    others.push(
      ...(await Promise.all(
        Array.from({ length: Math.min(AT_ONCE, clients - from) }, async (_, n) => {
          const other = await connect();
          const tube = n % 5 === 0 ? LONG_TUBE : `customer-${from + n}`;
          await say(other, `name ${n % 5 === 0 ? LONG_WORKER : `mailer-${from + n}`}`, /^NAMED/);
          await say(other, `use ${tube}`, /^USING/);
          for (const name of [LONG_DEAD, longName("watched-"), tube])
            await say(other, `watch ${name}`, /^WATCHING/);
          if (n < 3) await say(other, "reserve-with-timeout 0", /^RESERVED/);
          return other;
        }),
      )),
    );
  return others;
}
