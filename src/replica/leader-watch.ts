// Checks whether the leader is alive: asks it through the log servers, and connects to its address.
// Several checks may run at once. A question asked just before a process died is never answered,
// and must not delay later checks.

import { assert } from "../base/assert.ts";
import type { FollowerCore } from "./follower-core.ts";
import { parseReport } from "./node-report.ts";
import { listensOn } from "./peer-address.ts";
import type { SharedLog } from "./shared-log.ts";

export class LeaderWatch {
  readonly #log: Pick<SharedLog, "ask">;
  readonly #ownAddress: string;
  /**
   * For the last leader asked: its address, and whether that address ever accepted a connection.
   */
  #node = 0;
  #address = "";
  #listened = false;
  /** Numbers of checks; the result of an earlier check is ignored after that of a later one. */
  #looks = 0;
  #found = 0;

  constructor(log: Pick<SharedLog, "ask">, ownAddress: string) {
    this.#log = log;
    this.#ownAddress = ownAddress;
  }

  /**
   * Reports the result to the core. A refused connection counts only at an address that was open
   * before, because a firewall also refuses.
   */
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
    if (report.address !== this.#address) {
      this.#address = report.address;
      this.#listened = false;
    }
    if (report.role === "opening") follower.leaderLoads();
    if (report.role !== "primary" || this.#listened) return;
    const listens = (await listensOn(report.address)) === "yes";
    if (listens && leader === this.#node && report.address === this.#address) this.#listened = true;
  }

  /** The leader's process is no longer connected to the log servers. */
  async #knock(follower: FollowerCore, leader: number, look: number, heardAtMs: number): Promise<void> {
    assert(!this.#listened || this.#address !== "", "only a known address has accepted a connection");
    const mayBeDead = this.#listened && this.#address !== this.#ownAddress;
    const isDead = mayBeDead && (await listensOn(this.#address)) === "refused";
    // A leader whose lease expired closes its port; a batch from it meanwhile shows that it may
    // serve again.
    const isSilent = follower.heardAtMs === heardAtMs;
    if (this.#counts(leader, look)) follower.seen(leader, isDead && isSilent ? "gone" : "silent");
  }

  #counts(leader: number, look: number): boolean {
    assert(look <= this.#looks && this.#found <= this.#looks, "a result belongs to a started check");
    if (leader !== this.#node || look < this.#found) return false;
    this.#found = look;
    return true;
  }
}
