// Tests of the walk over the list of a tube's jobs: page by page, up to a limit.

import assert from "node:assert/strict";
import { it } from "node:test";
import { listJobs } from "../../../../src/cli/commands/jobs.ts";
import type { WireSession } from "../../../../src/cli/wire-session.ts";

const JOBS = 2500;

/** A server with jobs 1 to JOBS in a tube, which it lists in the pages that it is asked for. */
const session = {
  ask(command: string) {
    const optionOf = (name: string, otherwise: number): number =>
      Number(new RegExp(` ${name}=(\\d+)`).exec(command)?.[1] ?? otherwise);
    const after = optionOf("after", 0);
    const last = Math.min(JOBS, after + optionOf("limit", 100));
    const ids = Array.from({ length: last - after }, (_, index) => after + 1 + index);
    const next = last < JOBS ? last : 0;
    const lines = ["---", `next: ${next}`, "jobs:", ...ids.map((id) => `- {"id":${id}}`)];
    return Promise.resolve({ body: Buffer.from(lines.join("\n")) });
  },
} as unknown as WireSession;

for (const limit of [1, 999, 1000, 1001, 1500, 2000, JOBS, JOBS + 1, undefined])
  it(`lists ${limit ?? "all"} jobs, in the order of their ids`, async () => {
    const ids: unknown[] = [];
    for await (const part of listJobs(session, "t", limit === undefined ? {} : { limit: `${limit}` }))
      ids.push(...part.map(({ id }) => id));
    const count = Math.min(limit ?? JOBS, JOBS);
    assert.deepEqual(
      ids,
      Array.from({ length: count }, (_, index) => index + 1),
    );
  });
