// Command `npm run simulate:page`: a page on which the simulator runs in the browser.

import { mkdirSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { campaignCommand } from "../../support/campaign-command.ts";
import { wholeNumber } from "../../support/whole-number.ts";
import { pageAssets } from "./bundle.ts";
import { servePage } from "./serve.ts";

const PORT = 11380;

const command = campaignCommand(
  "simulate:page",
  "Serves a page on which the simulator of `npm run simulate` runs in your browser, to watch and to disturb.",
)
  .option("--port <n>", "port on 127.0.0.1; 0 for a free one", wholeNumber(0, 65535), PORT)
  .option("--out <folder>", "write the page's files there instead of serving them");

command.parse();
const { port, out } = command.opts<{ port: number; out?: string }>();
const assets = await pageAssets();
if (out === undefined) {
  const server = await servePage(assets, port);
  console.log(
    `The simulator runs at http://127.0.0.1:${(server.address() as AddressInfo).port}/ (Ctrl-C ends)`,
  );
} else {
  mkdirSync(out, { recursive: true });
  for (const [path, { text }] of assets) writeFileSync(join(out, path === "/" ? "index.html" : path), text);
  console.log(`The page is in ${out}. Its server must send the headers of test/proof/watch/serve.ts.`);
}
