// How many job ids several threads together can take in a second: the one line of memory that each
// put writes, in whichever thread, and the ids' places in the table of their shards.
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { JobDirectory, JobIds } from "../../src/ring/shared-words.ts";
import { DONE, GOES, ID_WORDS, type IdTakerData, READY } from "./id-taker.ts";

/** Compiling included, which the first of them takes. */
const WARM_MS = 100;

export async function idRate(threads: number, milliseconds: number): Promise<number> {
  const data: IdTakerData = {
    words: new SharedArrayBuffer(ID_WORDS * 4),
    directory: new SharedArrayBuffer(JobDirectory.BYTES),
  };
  const words = new Int32Array(data.words);
  const ids = new JobIds(words, 0);
  ids.reset(1);
  const file = new URL("./id-taker.ts", import.meta.url);
  const workers = Array.from({ length: threads }, () => new Worker(file, { workerData: data }));
  try {
    await reaches(words, READY, threads);
    Atomics.store(words, GOES, 1);
    Atomics.notify(words, GOES);
    await sleep(WARM_MS);
    const [first, before] = [ids.next, process.cpuUsage()];
    await sleep(milliseconds);
    const [last, { user, system }] = [ids.next, process.cpuUsage(before)];
    Atomics.store(words, GOES, 2);
    await reaches(words, DONE, threads);
    // By their CPU time: other programs may take the cores.
    return ((last - first) * threads * 1e6) / (user + system);
  } finally {
    await Promise.all(workers.map((worker) => worker.terminate()));
  }
}

/** Resolves when the word has this value. */
async function reaches(words: Int32Array, word: number, value: number): Promise<void> {
  for (let now = Atomics.load(words, word); now < value; now = Atomics.load(words, word)) {
    const wait = Atomics.waitAsync(words, word, now);
    if (wait.async) await wait.value;
  }
}
