// Looks whether the node that has the lead lives: asks it over the log servers, and knocks at its address.

import type { FollowerCore } from "./follower-core.ts";
import { parseReport } from "./node-report.ts";
import { listensOn } from "./peer-address.ts";
import type { SharedLog } from "./shared-log.ts";

export class LeaderWatch {
  readonly #log: Pick<SharedLog, "ask">;
  readonly #ownAddress: string;
  /** Of the node that was asked last: where it listens, and whether that was ever so. */
  #node = 0;
  #address = "";
  #listened = false;

  constructor(log: Pick<SharedLog, "ask">, ownAddress: string) {
    this.#log = log;
    this.#ownAddress = ownAddress;
  }

  /** Tells the core what it saw. A refusal counts only at an address that was open before: a firewall refuses, too. */
  async look(follower: FollowerCore): Promise<void> {
    const { leader } = follower;
    if (leader === 0) return;
    if (leader !== this.#node) {
      this.#node = leader;
      this.#address = "";
      this.#listened = false;
    }
    const answer = await this.#log.ask(leader);
    if (answer === undefined) return follower.seen(leader, "silent");
    if (answer !== "gone") {
      follower.seen(leader, "there");
      const report = parseReport(answer);
      if (report === undefined) return;
      this.#address = report.address;
      if (report.role === "opening") follower.leaderLoads();
      if (report.role === "primary" && !this.#listened) this.#listened = await this.#listens();
      return;
    }
    if (!this.#listened || this.#address === this.#ownAddress) return follower.seen(leader, "silent");
    follower.seen(leader, (await listensOn(this.#address)) === "refused" ? "gone" : "silent");
  }

  async #listens(): Promise<boolean> {
    return this.#address !== "" && (await listensOn(this.#address)) === "yes";
  }
}
