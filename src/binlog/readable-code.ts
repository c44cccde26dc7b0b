// Whether threads started now can read their code. The current user may not be allowed to, after
// the process dropped its privileges. A bundle replaces this module
// (packaging/bundle/replacements).

import { fileURLToPath } from "node:url";
import { isReadable } from "./disk/is-readable.ts";

export function isCodeReadable(): boolean {
  return isReadable(fileURLToPath(import.meta.url));
}
