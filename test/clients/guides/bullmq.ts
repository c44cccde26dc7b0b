// From BullMQ: the code of docs/from-other-queues.md. Usage: node bullmq.ts PORT. Prints "ok" at
// the end.

import assert from "node:assert/strict";
import { connect, json, work } from "../../../src/client/client.ts";
import { eventually } from "../../support/eventually.ts";

interface Mail {
  readonly user: number;
}
const address = `127.0.0.1:${process.argv[2]}`;
const sent: number[] = [];
let attempts = 0;
async function send({ user }: Mail): Promise<void> {
  if (++attempts < 2) throw new Error("SMTP 421: later");
  sent.push(user);
}

// page: begin
const queue = await connect(address, { codec: json<Mail>() });
await queue.tube("mails").set({ maxAttempts: 5, backoff: 1, deadLetter: "mails-dead" });
await queue.put("mails", { user: 42 }, { unique: "welcome-42" });
const worker = work(queue, ["mails"], async (job) => await send(job.body), { concurrency: 10 });
// page: end

await eventually("the mail is sent at the second attempt", () => sent.length === 1);
assert.deepEqual(sent, [42]);
await worker.stop();
await queue.close();
process.stdout.write("ok\n");
