// File of a backup, which gets its final name only once it is complete and durable.

import { writeSync } from "node:fs";
import { type FileHandle, open, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { CommandFailed, ExitCode } from "./exit-code.ts";

/** Suffix of the name of an incomplete backup. */
const PART = ".part";
/** A single sync of everything, at the end, would hold up the syncs of a log on the same disk. */
const SYNC_EVERY_BYTES: number = 8 << 20;

export class BackupFile {
  readonly #name: string;
  readonly #file: FileHandle;
  #unsynced = 0;

  private constructor(name: string, file: FileHandle) {
    this.#name = name;
    this.#file = file;
  }

  /** Throws CommandFailed if the file exists or can't be created. */
  static async create(name: string): Promise<BackupFile> {
    if (await exists(name)) throw failed(`${name} exists: give the backup another name`);
    try {
      return new BackupFile(name, await open(`${name}${PART}`, "wx", 0o600));
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      if (code !== "EEXIST") throw failed(`cannot write ${name}: ${message}`);
      throw failed(
        `${name}${PART} exists: a backup is writing it, or was killed; remove it if none is running`,
      );
    }
  }

  /** Writes at once: handing each piece to another thread would cost more than the copy itself. */
  async write(bytes: Uint8Array): Promise<void> {
    try {
      for (let done = 0; done < bytes.length; ) done += writeSync(this.#file.fd, bytes, done);
      this.#unsynced += bytes.length;
      if (this.#unsynced < SYNC_EVERY_BYTES) return;
      this.#unsynced = 0;
      await this.#file.datasync();
    } catch (error) {
      throw failed(`cannot write ${this.#name}: ${(error as Error).message}`);
    }
  }

  /** Makes the file durable and gives it its name. */
  async finish(): Promise<void> {
    try {
      await this.#file.sync();
      await this.#file.close();
      await rename(`${this.#name}${PART}`, this.#name);
      const folder = await open(dirname(this.#name), "r");
      // Some file systems have no such operation, and keep names by themselves: fsync(2).
      await folder.sync().catch((error: NodeJS.ErrnoException) => {
        if (error.code !== "EINVAL") throw error;
      });
      await folder.close();
    } catch (error) {
      throw failed(`cannot write ${this.#name}: ${(error as Error).message}`);
    }
  }

  /** Removes an incomplete file. */
  async remove(): Promise<void> {
    await this.#file.close().catch(() => {});
    await rm(`${this.#name}${PART}`, { force: true });
  }
}

const failed = (message: string): CommandFailed => new CommandFailed(message, ExitCode.Nothing);

async function exists(name: string): Promise<boolean> {
  return stat(name).then(
    () => true,
    () => false,
  );
}
