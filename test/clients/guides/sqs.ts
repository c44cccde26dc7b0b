// From SQS: the code of docs/from-other-queues.md. Usage: node sqs.ts PORT. Prints "ok" at the end.

import assert from "node:assert/strict";
import { connect, text, work } from "../../../src/client/client.ts";
import { eventually } from "../../support/eventually.ts";

const address = `127.0.0.1:${process.argv[2]}`;
const body = "hello";
const seen: string[] = [];
async function handle(message: string): Promise<void> {
  seen.push(message);
  if (seen.length < 2) throw new Error("not yet");
}

// page: begin
const queue = await connect(address, { codec: text() });
await queue.tube("mails").set({ maxAttempts: 5, deadLetter: "mails-dead" }); // the redrive policy
await queue.put("mails", body, { delay: 60, ttr: 30 }); // ttr: the visibility timeout, of each job
const worker = work(queue, ["mails"], async (job) => await handle(job.body), { concurrency: 10 });
// page: end

assert.deepEqual(seen, [], "it is delayed");
await queue.tube("mails").kick(1);
await eventually("it is handled at the second attempt", () => seen.length === 2);
await worker.stop();
assert.equal(
  (
    await queue
      .tube("mails")
      .stats()
      .catch(() => undefined)
  )?.currentJobsBuried ?? 0,
  0,
);
await queue.close();
process.stdout.write("ok\n");
