// Waits for text in a server's stdout or stderr.

import assert from "node:assert/strict";
import { eventually } from "../eventually.ts";
import type { ServerProcess } from "./server-process.ts";

/** Fails if the server ends without them. */
export async function untilItSays(server: ServerProcess, words: RegExp): Promise<RegExpExecArray> {
  return eventually(
    () => `${words} in: ${server.stdout}${server.stderr}`,
    () => {
      const match = words.exec(server.stdout + server.stderr);
      if (match !== null) return match;
      assert.ok(!server.hasExited, `it ended: ${server.stdout}${server.stderr}`);
      return undefined;
    },
  );
}
