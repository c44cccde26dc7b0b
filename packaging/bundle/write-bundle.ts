// Writes files into a folder.

import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

export function writeBundle(files: ReadonlyMap<string, Uint8Array | string>, folder: string): void {
  for (const [path, bytes] of files) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), bytes);
  }
}
