// Doorbells with planted bugs, which the stress cases must find.

import { DOORBELL_WORDS, Doorbell, DoorbellOwner } from "../../../src/ring/doorbell.ts";

const ASLEEP = 1;

/** Announces sleep only when it goes to sleep: a ring between the look and the sleep is lost. */
export class LateAnnouncer extends DoorbellOwner {
  override prepare(): void {}

  override sleep(timeoutMs: number): void {
    super.prepare();
    super.sleep(timeoutMs);
  }

  override sleepAsync(): Promise<unknown> | undefined {
    super.prepare();
    return super.sleepAsync();
  }
}

class BareBell extends Doorbell {
  protected readonly bells: Int32Array;
  protected readonly at: number;

  constructor(words: Int32Array, index: number) {
    super(words, index);
    this.bells = words;
    this.at = index * DOORBELL_WORDS;
  }
}

/** Notifies, but keeps the word: an owner about to sleep misses it. */
export class SilentBell extends BareBell {
  override ring(): boolean {
    if (Atomics.load(this.bells, this.at) !== ASLEEP) return false;
    Atomics.notify(this.bells, this.at);
    return true;
  }
}

/** Takes the ring by a load and a store: several think that they are the one that wakes. */
export class SharedBell extends BareBell {
  override ring(): boolean {
    if (Atomics.load(this.bells, this.at) !== ASLEEP) return false;
    Atomics.store(this.bells, this.at, 0);
    Atomics.notify(this.bells, this.at);
    return true;
  }
}
