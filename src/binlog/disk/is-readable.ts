// Whether a file can be read by the user that the process is now.

import { accessSync, constants } from "node:fs";

export function isReadable(file: string): boolean {
  try {
    accessSync(file, constants.R_OK);
    return true;
  } catch {
    return false;
  }
}
