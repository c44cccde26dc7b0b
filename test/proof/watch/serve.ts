// HTTP server of the page. Threads of a browser share memory only on isolated pages, which these
// headers make it.

import { createServer, type Server } from "node:http";
import type { Asset } from "./bundle.ts";

const HEADERS = {
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-embedder-policy": "require-corp",
  "content-security-policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src data:",
  "cache-control": "no-store",
};

/** Resolves when it listens on `port` of the loopback address; 0 for a free port. */
export async function servePage(assets: ReadonlyMap<string, Asset>, port: number): Promise<Server> {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? "/", "http://localhost");
    const asset = assets.get(pathname);
    if (asset === undefined) response.writeHead(404).end("There is nothing here.\n");
    else response.writeHead(200, { ...HEADERS, "content-type": asset.type }).end(asset.text);
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject).listen(port, "127.0.0.1", resolve);
  });
  return server;
}
