// Check whether the current user of the process can read a file.

import { accessSync, constants } from "node:fs";
import { fileURLToPath } from "node:url";

function isReadable(file: string): boolean {
  try {
    accessSync(file, constants.R_OK);
    return true;
  } catch {
    return false;
  }
}

// Check whether new threads can read their code. After the process has dropped its privileges, the
// current user may not be allowed to. A bundle replaces this module
// (packaging/bundle/replacements).

export function isCodeReadable(): boolean {
  return isReadable(fileURLToPath(import.meta.url));
}
