// Owner of a directory's files: the server, which runs as another user, must be able to use files
// that root creates.

import * as fs from "node:fs";
import { join } from "node:path";
import { segmentNumber } from "../../base/segment-name.ts";
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

  /** Gives a newly created file to this owner. */
  give(handle: Handle): void {
    fs.fchownSync(handle, this.#uid, this.#gid);
    fs.fchmodSync(handle, this.#mode);
  }
}

/**
 * Returns the owner, group and mode of the log's newest file, or the directory's owner if there is
 * none. Returns undefined unless the user is root, because others own the files they create anyway.
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
