// Starts our server with a transport, or skips the running test if io_uring is not permitted.

import type { TestContext } from "node:test";
import { type ServerProcess, startServer } from "./server-process.ts";

/** The server stops when the test is over; undefined where the test is skipped. */
export async function startWithTransport(
  t: TestContext,
  transport: "libuv" | "io_uring",
  flags: readonly string[],
  env: Readonly<Record<string, string>> = {},
  unixPath?: string,
): Promise<ServerProcess | undefined> {
  try {
    const where = unixPath === undefined ? {} : { unixPath };
    const server = await startServer({
      kind: "ours",
      flags: [...flags, "--transport", transport],
      env,
      ...where,
    });
    t.after(() => server.stop());
    return server;
  } catch (error) {
    if (transport === "libuv" || !/io_uring_setup/.test(`${error}`)) throw error;
    t.skip(`${error}`);
    return undefined;
  }
}
