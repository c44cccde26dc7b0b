// A backup beside the simulated load: it asks for a cut, reads the segments over many steps, and
// sometimes gives up. A restored backup must have exactly the jobs of the moment of its cut.

import { crc32 } from "node:zlib";
import { backupEnd, backupHead, NEXT_BYTES, paddingOf, segmentHead } from "../../src/base/backup-archive.ts";
import { segmentName } from "../../src/base/text.ts";
import { readWhole } from "../../src/binlog/disk/disk.ts";
import { restoreBackup } from "../../src/binlog/tools/restore-backup.ts";
import type { LogLife } from "./log-life.ts";
import { jobsOfLog } from "./model.ts";
import { virtualOptions } from "./sample/sample-log.ts";
import { VirtualDisk } from "./virtual-disk.ts";

const HEADER_BYTES = 64;

export class SimulatedBackup {
  readonly #life: LogLife;
  #number = 0;
  #expected: Map<number, string> | undefined;
  #files: { number: number; bytes: Uint8Array }[] = [];
  #next = 0;
  /** Finished backups, which wait to be restored. */
  readonly #toRestore: { archive: Uint8Array[]; expected: Map<number, string> }[] = [];
  restored = 0;
  refused = 0;

  constructor(life: LogLife) {
    this.#life = life;
  }

  /** Call before each step of work. */
  ask(): void {
    const { storage, random } = this.#life;
    const { cut } = storage;
    if (cut.state === "none" && random.chance(0.01)) cut.want(++this.#number);
    else if (cut.state === "refused" || random.chance(0.002)) this.#give(cut.state === "refused");
  }

  #give(isRefused: boolean): void {
    if (isRefused) this.refused++;
    this.#life.storage.cut.want(0);
    this.#forget();
  }

  #forget(): void {
    this.#expected = undefined;
    this.#files = [];
  }

  /** The server ends: a backup under way is lost. */
  end(): void {
    this.#forget();
  }

  /** Call after each step of work, before anything else is appended. */
  look(): void {
    const { cut } = this.#life.storage;
    if (cut.state !== "made") return;
    if (this.#expected === undefined) {
      this.#expected = this.#jobsNow();
      this.#next = cut.oldest;
      this.#read(cut.last + 1);
    }
    for (let count = this.#life.random.below(4); count > 0 && this.#next <= cut.last; count--)
      this.#read(this.#next++);
    if (this.#next <= cut.last) return;
    this.#toRestore.push({ archive: this.#archive(cut.oldest, cut.last), expected: this.#expected });
    this.#give(false);
  }

  #read(number: number): void {
    const { disk } = this.#life;
    const { fault } = disk;
    disk.fault = () => {};
    const whole = readWhole(disk, segmentName(number));
    disk.fault = fault;
    this.#files.push({ number, bytes: whole });
  }

  /** The jobs after all operations that the log has taken. */
  #jobsNow(): Map<number, string> {
    const { model, backlog } = this.#life;
    const waits = (shard: number, n: number): boolean =>
      backlog.some((one) => one.shard === shard && one.n === n);
    const jobs = new Map(model.jobs);
    for (const { shard, n, id, job } of model.operations) {
      if (waits(shard, n)) continue;
      if (job === undefined) jobs.delete(id);
      else jobs.set(id, job);
    }
    return jobs;
  }

  #archive(oldest: number, last: number): Uint8Array[] {
    const [next, ...segments] = this.#files;
    const head = new Uint8Array(NEXT_BYTES);
    head.set(next!.bytes.subarray(0, HEADER_BYTES));
    const files = [{ number: last + 1, bytes: head }, ...segments];
    const bytes = files.reduce((sum, file) => sum + file.bytes.length, 0);
    return [
      ...backupHead({ version: "test", createdAtMs: 1000, oldest, last, bytes }),
      ...files.flatMap((file) => [
        segmentHead(file.number, file.bytes.length, 1000),
        file.bytes,
        paddingOf(file.bytes.length),
      ]),
      ...backupEnd(
        files.map((file) => crc32(file.bytes)),
        1000,
      ),
    ];
  }

  /** Restores what was copied, each into a directory of its own, and compares the jobs. */
  async check(): Promise<void> {
    for (const { archive, expected } of this.#toRestore.splice(0)) {
      const disk = new VirtualDisk();
      await restoreBackup(disk, piecesOf(archive), () => {});
      const found = await jobsOfLog({ ...virtualOptions(disk), shards: 3 });
      for (const id of new Set([...expected.keys(), ...found.keys()]))
        if (expected.get(id) !== found.get(id))
          throw new Error(`a backup has ${found.get(id)} for job ${id} instead of ${expected.get(id)}`);
      this.restored++;
    }
  }
}

async function* piecesOf(archive: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* archive;
}
