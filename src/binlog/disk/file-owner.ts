// Who owns the files of a directory: what root makes there must stay usable by the server, which runs as
// another user.

import * as fs from "node:fs";
import { join } from "node:path";
import { segmentNumber } from "../format/segment-format.ts";
import type { Handle } from "./disk.ts";

export class FileOwner {
  readonly #uid: number;
  readonly #gid: number;
  readonly #mode: number;

  constructor(uid: number, gid: number, mode: number) {
    this.#uid = uid;
    this.#gid = gid;
    this.#mode = mode;
  }

  /** Makes a file that was just made this owner's. */
  give(handle: Handle): void {
    fs.fchownSync(handle, this.#uid, this.#gid);
    fs.fchmodSync(handle, this.#mode);
  }
}

/**
 * The owner, group and mode of the newest file of the log, or the directory's owner where there is none;
 * undefined for any user but root, since others own what they make anyway.
 */
export function ownerOfFiles(path: string): FileOwner | undefined {
  if (process.geteuid?.() !== 0) return undefined;
  const newest = fs
    .readdirSync(path)
    .filter((name) => segmentNumber(name) > 0)
    .sort()
    .at(-1);
  const { uid, gid, mode } = fs.statSync(newest === undefined ? path : join(path, newest));
  return new FileOwner(uid, gid, newest === undefined ? 0o600 : mode & 0o777);
}
