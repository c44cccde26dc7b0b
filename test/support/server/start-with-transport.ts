// Starts our server with a transport, or skips the running test if io_uring is not permitted.

import type { TestContext } from "node:test";
import { type ServerProcess, startServer } from "./server-process.ts";

/** "io_uring, once" is io_uring as with kernels before Linux 6.17: a receive brings bytes once. */
type TestedTransport = "libuv" | "io_uring" | "io_uring, once";

/** The server stops when the test is over; undefined where the test is skipped. */
export async function startWithTransport(
  t: TestContext,
  transport: TestedTransport,
  flags: readonly string[],
  env: Readonly<Record<string, string>> = {},
  unixPath?: string,
): Promise<ServerProcess | undefined> {
  try {
    const where = unixPath === undefined ? {} : { unixPath };
    const [name = "", once] = transport.split(", ");
    const server = await startServer({
      kind: "ours",
      flags: [...flags, "--transport", name],
      env: once === undefined ? env : { ...env, RUNNERBEAN_RECEIVES: once },
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
