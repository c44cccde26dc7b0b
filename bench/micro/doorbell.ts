// The doorbell: the cost of ringing an awake owner, and of a wake.
import { DOORBELL_WORDS, Doorbell, DoorbellOwner } from "../../src/ring/doorbell.ts";
import { type MicroBenchmark, sumBelow } from "./micro-benchmark.ts";
import { pingPong } from "./ring.ts";
import { RingPeer } from "./ring-peer.ts";

const AWAKE: MicroBenchmark = {
  subject: "doorbell",
  name: "ring while the owner is awake",
  operations: 5_000_000,
  smallOperations: 1000,
  expected: () => 0, // wakes
  open(operations) {
    const doorbell = new Doorbell(new Int32Array(new SharedArrayBuffer(DOORBELL_WORDS * 4)), 0);
    return {
      run() {
        let wakes = 0;
        for (let i = 0; i < operations; i++) if (doorbell.ring()) wakes++;
        return wakes;
      },
    };
  },
};

const ANNOUNCED: MicroBenchmark = {
  subject: "doorbell",
  name: "announce sleep, be rung",
  operations: 1_000_000,
  smallOperations: 1000,
  expected: (operations) => operations, // wakes
  open(operations) {
    const words = new Int32Array(new SharedArrayBuffer(DOORBELL_WORDS * 4));
    const doorbell = new Doorbell(words, 0);
    const owner = new DoorbellOwner(words, 0);
    return {
      run() {
        let wakes = 0;
        for (let i = 0; i < operations; i++) {
          owner.prepare();
          if (doorbell.ring()) wakes++;
        }
        return wakes;
      },
    };
  },
};

const EACH_RUNG: MicroBenchmark = {
  subject: "doorbell",
  name: "throughput to another thread, a ring for each message",
  operations: 200_000,
  smallOperations: 2000,
  expected: sumBelow,
  open(operations) {
    const peer = new RingPeer({ role: "take", looks: 0 });
    return {
      run() {
        const { sum } = peer.begin(operations);
        for (let i = 0; i < operations; i++) {
          peer.end.send(i);
          peer.end.publish();
        }
        return sum;
      },
      close: () => peer.close(),
    };
  },
};

export const DOORBELL: readonly MicroBenchmark[] = [
  AWAKE,
  ANNOUNCED,
  EACH_RUNG,
  pingPong("doorbell", "there and back to a thread that sleeps", 2000, 0),
];
