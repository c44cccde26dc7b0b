// Peer of a ring in a thread of its own, and the access to it: receives messages or sends them
// back.
//
// Every message carries one number. An idle side polls its ring for a while, then sleeps until its
// doorbell rings, as the server's threads do.
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { DOORBELL_WORDS, Doorbell, DoorbellOwner, pause } from "../../src/ring/doorbell.ts";
import { createRing, EMPTY, FULL, RingReader, RingWriter } from "../../src/ring/ring.ts";

interface PeerOptions {
  /** `take` sums what comes up, `echo` sends each message back. */
  readonly role: "take" | "echo";
  /** How often an end looks at its ring before it sleeps; 0 sleeps at once. */
  readonly looks: number;
}

interface PeerData extends PeerOptions {
  readonly there: SharedArrayBuffer;
  readonly back: SharedArrayBuffer;
  readonly doorbells: SharedArrayBuffer;
}

const RING_BYTES = 1 << 20;
const MESSAGE_BYTES = 64;
/** Longest sleep: the other end may have died. */
const SLEEP_MS_MAX = 5000;
const HERE = 0;
const THERE = 1;

/** One end: a ring out, a ring in, a bell of its own and the other's. */
class RingEnd {
  readonly #out: RingWriter;
  readonly #in: RingReader;
  readonly #own: DoorbellOwner;
  readonly #other: Doorbell;
  readonly #looks: number;

  constructor(data: PeerData, side: typeof HERE | typeof THERE) {
    const words = new Int32Array(data.doorbells);
    this.#out = new RingWriter(side === HERE ? data.there : data.back);
    this.#in = new RingReader(side === HERE ? data.back : data.there);
    this.#own = new DoorbellOwner(words, side);
    this.#other = new Doorbell(words, 1 - side);
    this.#looks = data.looks;
  }

  /** Puts a number into the ring, invisible until `publish`; waits while there is no room. */
  send(number: number): void {
    for (;;) {
      const offset = this.#out.claim(MESSAGE_BYTES);
      if (offset !== FULL) {
        this.#out.float64[(offset >> 3) + 1] = number;
        return;
      }
      this.publish();
      this.#own.prepare();
      this.#out.wantRoom();
      if (this.#out.hasRoom(MESSAGE_BYTES)) this.#own.cancel();
      else this.#own.sleep(SLEEP_MS_MAX);
    }
  }

  publish(): void {
    if (this.#out.publish()) this.#other.ring();
  }

  /** Takes `count` numbers, in batches as they come, and gives each to `use`. */
  take(count: number, use: (number: number) => void): void {
    for (let left = count; left > 0; ) {
      let offset = this.#in.next();
      if (offset === EMPTY) {
        this.#waitForMessage();
        continue;
      }
      for (; offset !== EMPTY; offset = --left > 0 ? this.#in.next() : EMPTY)
        use(this.#in.float64[(offset >> 3) + 1]!);
      if (this.#in.release()) this.#other.ring();
    }
  }

  #waitForMessage(): void {
    for (let look = 0; look < this.#looks; look++) {
      if (this.#in.hasMessage) return;
      pause();
    }
    this.#own.prepare();
    if (this.#in.hasMessage) this.#own.cancel();
    else this.#own.sleep(SLEEP_MS_MAX);
  }
}

/** This end of a peer, and the peer's thread. */
export class RingPeer {
  readonly end: RingEnd;
  readonly #worker: Worker;

  constructor(options: PeerOptions) {
    const data: PeerData = {
      ...options,
      there: createRing(RING_BYTES),
      back: createRing(RING_BYTES),
      doorbells: new SharedArrayBuffer(2 * DOORBELL_WORDS * 4),
    };
    this.end = new RingEnd(data, HERE);
    this.#worker = new Worker(new URL(import.meta.url), { workerData: data, name: `micro ${options.role}` });
  }

  /** Lets the peer take so many messages; `sum` is that of their numbers, once all have come. */
  begin(count: number): { readonly sum: Promise<number> } {
    const sum = new Promise<number>((resolve, reject) => {
      this.#worker.once("message", resolve);
      this.#worker.once("error", reject);
    });
    this.#worker.postMessage(count);
    return { sum };
  }

  async close(): Promise<void> {
    await this.#worker.terminate();
  }
}

if (!isMainThread && parentPort !== null && isPeerData(workerData)) serve(workerData);

/** Also a test or another worker may import this file. */
function isPeerData(data: unknown): data is PeerData {
  return typeof data === "object" && data !== null && "role" in data && "there" in data;
}

function serve(data: PeerData): void {
  const end = new RingEnd(data, THERE);
  parentPort!.on("message", (count: number) => {
    let sum = 0;
    end.take(count, (number) => {
      sum += number;
      if (data.role === "take") return;
      end.send(number);
      end.publish();
    });
    parentPort!.postMessage(sum);
  });
}
