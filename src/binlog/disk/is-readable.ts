// Check whether the current user of the process can read a file.

import { accessSync, constants } from "node:fs";

export function isReadable(file: string): boolean {
  try {
    accessSync(file, constants.R_OK);
    return true;
  } catch {
    return false;
  }
}
