// `backup`: copies the log of a running server into a file.

import { once } from "node:events";
import { writeSync } from "node:fs";
import { type FileHandle, open, rename, rm, stat } from "node:fs/promises";
import { constants, setPriority } from "node:os";
import { dirname } from "node:path";
import { crc32 } from "node:zlib";
import type { Command } from "commander";
import { BackupFault, BackupReader } from "../../base/backup-archive.ts";
import { whole } from "../argument.ts";
import { streamOf } from "../http-session.ts";
import { CommandFailed, ExitCode, tell } from "../output.ts";
import { type CommonOptions, newCommand, withHttp } from "../run.ts";
import type { Target } from "../target.ts";

// File of a backup, which gets its final name only once it is complete and durable.

/** Suffix of the name of an incomplete backup. */
const PART = ".part";
/** A single sync of everything, at the end, would hold up the syncs of a log on the same disk. */
const SYNC_EVERY_BYTES: number = 8 << 20;

class BackupFile {
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

const MEGABYTE = 1e6;
const RATE_MAX = 10_000;
/** Minimum time between two lines of progress without a terminal, ms. */
const PROGRESS_EVERY_MS = 10_000;

interface BackupOptions extends CommonOptions {
  readonly rate?: string;
}

interface Output {
  readonly write: (bytes: Uint8Array) => Promise<void>;
  readonly finish: () => Promise<void>;
  readonly remove: () => Promise<void>;
}

export function backupCommand(): Command {
  return newCommand(
    "backup <what> [file]",
    "copy all jobs and settings of a running server to a file (- is stdout), over HTTP",
    {},
    ["json"],
  )
    .usage("[options] [url] <file>")
    .option("--rate <n>", "read at most this many mebibytes per second (default: 16)", whole(1, RATE_MAX))
    .action((what: string, second: string | undefined, options: BackupOptions, self: Command) => {
      if (second === undefined && /^https?:\/\//.test(what)) self.error("error: give the file to write, too");
      const file = second ?? what;
      if (second !== undefined && (options.url ?? options.port) !== undefined)
        self.error("error: give the server once: as the first argument, or with --url or -p");
      const server = second === undefined ? options : { ...options, url: what };
      return withHttp(server, async (target) => {
        yieldProcessor();
        const output = file === "-" ? toStdout : await BackupFile.create(file);
        const remove = (): void => void output.remove().finally(() => process.exit(ExitCode.Nothing));
        const signals = ["SIGTERM", "SIGINT"] as const;
        for (const signal of signals) process.once(signal, remove);
        try {
          const bytes = await copy(target, options, output);
          await output.finish();
          tell(`backed up ${bytes} bytes of log`);
        } catch (error) {
          await output.remove();
          throw error;
        } finally {
          for (const signal of signals) process.off(signal, remove);
        }
      });
    });
}

/** Lets all other programs go first: the server may run on the same machine. */
function yieldProcessor(): void {
  try {
    setPriority(constants.priority.PRIORITY_LOW);
  } catch {
    // It is only a courtesy.
  }
}

const toStdout: Output = {
  write: async (bytes) => {
    if (!process.stdout.write(bytes)) await once(process.stdout, "drain");
  },
  finish: async () => {},
  remove: async () => {},
};

/** Copies and checks the archive. Returns its length. */
async function copy(target: Target, { rate }: BackupOptions, output: Output): Promise<number> {
  const path = `/v1/backup${rate === undefined ? "" : `?rate=${rate}`}`;
  const response = await streamOf(target, path, "application/x-tar");
  const reader = new BackupReader(crc32);
  const progress = await Progress.create();
  try {
    for await (const piece of response) {
      for (const part of reader.take(piece)) if (part.part === "begin") progress.total = part.begin.bytes;
      await output.write(piece);
      progress.show(reader.taken);
    }
    reader.finish();
    return reader.taken;
  } catch (error) {
    if (error instanceof CommandFailed) throw error;
    const { message } = error as Error;
    const why =
      error instanceof BackupFault ? message : `it broke off after ${reader.taken} bytes: ${message}`;
    throw new CommandFailed(
      `no backup was made: ${why}; the server's log may say more`,
      error instanceof BackupFault ? ExitCode.Nothing : ExitCode.NoConnection,
    );
  } finally {
    progress.end();
  }
}

type Bar = import("cli-progress").SingleBar;

/** Shows a bar on a terminal, otherwise a line from time to time. */
class Progress {
  total = 0;
  readonly #bar: Bar | undefined;
  #isShown = false;
  #nextAtMs: number = performance.now() + PROGRESS_EVERY_MS;

  private constructor(bar: Bar | undefined) {
    this.#bar = bar;
  }

  static async create(): Promise<Progress> {
    if (!process.stderr.isTTY) return new Progress(undefined);
    const { SingleBar } = await import("cli-progress");
    return new Progress(
      new SingleBar({ format: "backing up {bar} {percentage} %  {eta} s left", clearOnComplete: true }),
    );
  }

  show(taken: number): void {
    // The archive is a little longer than its segments.
    const done = Math.min(taken, this.total);
    if (this.#bar !== undefined) {
      if (this.#isShown) this.#bar.update(done);
      else this.#bar.start(this.total, done);
      this.#isShown = true;
    } else if (performance.now() >= this.#nextAtMs) {
      this.#nextAtMs = performance.now() + PROGRESS_EVERY_MS;
      const megabytes = (bytes: number): string => (bytes / MEGABYTE).toFixed(0);
      tell(`${megabytes(done)} of ${megabytes(this.total)} MB`);
    }
  }

  end(): void {
    if (this.#isShown) this.#bar?.stop();
  }
}
