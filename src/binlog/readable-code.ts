// Check whether new threads can read their code. After the process has dropped its privileges, the
// current user may not be allowed to. A bundle replaces this module
// (packaging/bundle/replacements).

import { fileURLToPath } from "node:url";
import { isReadable } from "./disk/is-readable.ts";

export function isCodeReadable(): boolean {
  return isReadable(fileURLToPath(import.meta.url));
}
