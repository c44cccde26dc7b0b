// A thread that takes job ids as an acceptor does for each put, as fast as it can.
import { workerData } from "node:worker_threads";
import { JobDirectory, JobIds } from "../../src/ring/shared-words.ts";

export interface IdTakerData {
  /** Two words of the ids; how many threads are ready; 1 while they take; how many have ended. */
  readonly words: SharedArrayBuffer;
  readonly directory: SharedArrayBuffer;
}

export const READY = 16;
export const GOES = 32;
export const DONE = 48;
export const ID_WORDS = 64;
/** Ids between two looks at the word that ends it. */
const BATCH = 64;

if (workerData !== null) {
  const { words: buffer, directory: table } = workerData as IdTakerData;
  const words = new Int32Array(buffer);
  const ids = new JobIds(words, 0);
  const directory = new JobDirectory(table);
  Atomics.add(words, READY, 1);
  Atomics.notify(words, READY);
  Atomics.wait(words, GOES, 0);
  while (Atomics.load(words, GOES) === 1)
    for (let taken = 0; taken < BATCH; taken++) directory.set(ids.take(), taken & 1);
  Atomics.add(words, DONE, 1);
  Atomics.notify(words, DONE);
}
