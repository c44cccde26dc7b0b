// `npm run dashboard:bounds`: limits of the dashboard's cost with 10,000 tubes and a million jobs,
// measured on a real server and in a real browser. Exits with 1 if one is exceeded; needs an idle
// machine.

import { testCommand } from "../support/campaign-command.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { openBrowser, serve } from "./browser.ts";

const TUBES = 10_000;
const JOBS = 1_000_000;
const AT_ONCE = 10_000;
const REPLY_MS_MAX = 60_000;
/** Seconds for which the browser watches the page of tubes, a tick each. */
const WATCHED_SECONDS = 20;

testCommand(
  "run dashboard:bounds",
  "Measures what the dashboard costs with 10,000 tubes and a million jobs.\nEnds with 0 if all bounds are kept, and 1 if one is not. Needs an idle machine.",
).parse();

let areKept = true;

function tell(what: string, value: number, bound: number, unit: string): void {
  const isKept = value <= bound;
  areKept &&= isKept;
  console.log(`${isKept ? "kept  " : "BROKEN"}  ${what}: ${value.toFixed(1)} ${unit} (at most ${bound})`);
}

async function timed(act: () => Promise<unknown>): Promise<number> {
  const beganMs = performance.now();
  await act();
  return performance.now() - beganMs;
}

async function fill(port: number): Promise<void> {
  const client = await WireClient.connect({ port, host: "127.0.0.1" });
  const all = async (commands: string[]): Promise<void> => {
    client.send(commands.join(""));
    for (const _ of commands) await client.readReply(REPLY_MS_MAX);
  };
  const put = "put 0 0 60 1\r\nx\r\n";
  for (let from = 0; from < TUBES; from += 1000)
    await all(
      Array.from({ length: 2000 }, (_, line) => (line % 2 === 0 ? `use tube-${from + line / 2}\r\n` : put)),
    );
  await all(["use million\r\n"]);
  for (let jobs = 0; jobs < JOBS; jobs += AT_ONCE) await all(Array.from({ length: AT_ONCE }, () => put));
  client.close();
}

interface Page {
  readonly cursor: string | null;
}

/** Looks through all jobs of the tube for a text that none has. */
async function scan(url: string): Promise<void> {
  const first = `${url}/v1/tubes/million/jobs?limit=50&text=nothing`;
  for (let cursor: string | null = ""; cursor !== null; ) {
    const from: string = cursor === "" ? "" : `&cursor=${cursor}`;
    cursor = ((await (await fetch(first + from)).json()) as Page).cursor;
  }
}

const { server, url, port } = await serve();
const browser = await openBrowser();
try {
  await fill(port);
  const get = async (path: string): Promise<string> => (await fetch(url + path)).text();
  // The first of each reads its code.
  for (const path of ["/v1/tubes/million/jobs?limit=50&state=ready", "/v1/tubes?sort=oldest&limit=50"])
    await get(path);
  tell(
    "the first 50 of a million jobs",
    await timed(() => get("/v1/tubes/million/jobs?limit=50&state=ready")),
    150,
    "ms",
  );
  tell("a text that nothing matches", (await timed(() => scan(url))) / 1000, 5, "s");
  tell("a page of 10,000 tubes", (await get("/v1/tubes?sort=oldest&limit=50")).length / 1024, 64, "KB");

  const page = await browser.newPage();
  const usable = await timed(async () => {
    await page.goto(url);
    await page.getByRole("heading", { name: "Needs attention" }).waitFor();
  });
  tell("usable after", usable, 1000, "ms");
  const probe = await page.context().newCDPSession(page);
  await probe.send("Performance.enable");
  const measured = async (): Promise<ReadonlyMap<string, number>> =>
    new Map((await probe.send("Performance.getMetrics")).metrics.map(({ name, value }) => [name, value]));
  await page.goto(`${url}/#/tubes`);
  await page.locator("tbody tr").nth(49).waitFor();
  const before = await measured();
  await page.waitForTimeout(WATCHED_SECONDS * 1000);
  const busy = (await measured()).get("TaskDuration")! - before.get("TaskDuration")!;
  tell("a tick of the main thread", (busy * 1000) / WATCHED_SECONDS, 16, "ms");
  await probe.send("HeapProfiler.collectGarbage");
  tell("heap of the page", (await measured()).get("JSHeapUsedSize")! / 2 ** 20, 40, "MB");
  tell("rows in the browser", await page.locator("tbody tr").count(), 1000, "rows");
} finally {
  await browser.close();
  await server.kill();
}
process.exitCode = areKept ? 0 : 1;
