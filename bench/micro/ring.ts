// A ring: within one thread, and between two.
import { createRing, EMPTY, FULL, RingReader, RingWriter } from "../../src/ring/ring.ts";
import { type MicroBenchmark, sumBelow } from "./micro-benchmark.ts";
import { RingPeer } from "./ring-peer.ts";

const BATCH = 64;
const MESSAGE_BYTES = 112; // a put's header and a body of 64 bytes
/**
 * Looks of a spinning end before it sleeps all the same: longer than any answer takes on a free
 * core.
 */
const SPIN_LOOKS = 10_000;

const ONE_THREAD: MicroBenchmark = {
  subject: "ring",
  name: `claim to release in one thread, batches of ${BATCH}`,
  operations: 1_000_000,
  smallOperations: 1000,
  expected: sumBelow,
  open(operations) {
    const ring = createRing(1 << 16);
    const writer = new RingWriter(ring);
    const reader = new RingReader(ring);
    const takeBatch = (): number => {
      let sum = 0;
      for (let at = reader.next(); at !== EMPTY; at = reader.next()) sum += reader.float64[(at >> 3) + 1]!;
      reader.release();
      return sum;
    };
    return {
      run() {
        let sum = 0;
        for (let i = 0; i < operations; i++) {
          const at = writer.claim(MESSAGE_BYTES);
          if (at === FULL) throw new Error("a batch must fit into the ring");
          writer.float64[(at >> 3) + 1] = i;
          if ((i + 1) % BATCH > 0) continue;
          writer.publish();
          sum += takeBatch();
        }
        writer.publish();
        return sum + takeBatch();
      },
    };
  },
};

const THROUGHPUT: MicroBenchmark = {
  subject: "ring",
  name: `throughput to another thread, batches of ${BATCH}`,
  operations: 500_000,
  smallOperations: 20_000, // more than the ring holds
  expected: sumBelow,
  open(operations) {
    const peer = new RingPeer({ role: "take", looks: SPIN_LOOKS });
    return {
      run() {
        const { sum } = peer.begin(operations);
        for (let i = 0; i < operations; i++) {
          peer.end.send(i);
          if ((i + 1) % BATCH === 0) peer.end.publish();
        }
        peer.end.publish();
        return sum;
      },
      close: () => peer.close(),
    };
  },
};

export const RING: readonly MicroBenchmark[] = [
  ONE_THREAD,
  THROUGHPUT,
  pingPong("ring", "there and back to a thread that spins", 20_000, SPIN_LOOKS),
];

/** One message under way at a time; an operation is there and back. */
export function pingPong(subject: string, name: string, operations: number, looks: number): MicroBenchmark {
  return {
    subject,
    name,
    operations,
    smallOperations: 200,
    // Seen at both ends.
    expected: (count) => 2 * sumBelow(count),
    open(count) {
      const peer = new RingPeer({ role: "echo", looks });
      return {
        async run() {
          const { sum } = peer.begin(count);
          let back = 0;
          const add = (number: number): void => {
            back += number;
          };
          for (let i = 0; i < count; i++) {
            peer.end.send(i);
            peer.end.publish();
            peer.end.take(1, add);
          }
          return back + (await sum);
        },
        close: () => peer.close(),
      };
    },
  };
}
