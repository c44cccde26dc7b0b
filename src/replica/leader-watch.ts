// Looks whether the node that has the lead lives: asks it over the log servers, and knocks at its address. Several looks may be under
// way: what was asked just before a process died is never answered, and nobody should have to wait for that.

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
  /** Looks are numbered; what an earlier one finds after a later one counts no more. */
  #looks = 0;
  #found = 0;

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
    const look = ++this.#looks;
    const { heardAtMs } = follower;
    const answer = await this.#log.ask(leader);
    if (answer === "gone") return this.#knock(follower, leader, look, heardAtMs);
    if (!this.#counts(leader, look)) return;
    if (answer === undefined) return follower.seen(leader, "silent");
    follower.seen(leader, "there");
    const report = parseReport(answer);
    if (report === undefined) return;
    this.#address = report.address;
    if (report.role === "opening") follower.leaderLoads();
    if (report.role !== "primary" || this.#listened) return;
    const listens = (await listensOn(report.address)) === "yes";
    if (listens && leader === this.#node && report.address === this.#address) this.#listened = true;
  }

  /** Its process is not connected to the log servers any more. */
  async #knock(follower: FollowerCore, leader: number, look: number, heardAtMs: number): Promise<void> {
    const mayBeDead = this.#listened && this.#address !== this.#ownAddress;
    const isDead = mayBeDead && (await listensOn(this.#address)) === "refused";
    // One that may not serve closes its port; a batch of it meanwhile says that it may again.
    const isSilent = follower.heardAtMs === heardAtMs;
    if (this.#counts(leader, look)) follower.seen(leader, isDead && isSilent ? "gone" : "silent");
  }

  #counts(leader: number, look: number): boolean {
    if (leader !== this.#node || look < this.#found) return false;
    this.#found = look;
    return true;
  }
}
