// Whether a job id means the same job on two connections.
//
// A job id is only valid on the server that gave it, and on servers that continue its log. Behind
// the same address, a server without a log begins at 1 again, and a restored backup gives the ids
// after the backup a second time.

import { OtherServer } from "./errors.ts";
import type { Wire } from "./wire.ts";

/**
 * Throws OtherServer if `id`, which the server of the connection `giver` gave, may mean something
 * else on the connection `wire`.
 */
export async function mustKnow(what: string, id: number, giver: Wire, wire: Wire): Promise<void> {
  const [given, known] = await Promise.all([giver.origins(), wire.origins()]);
  const [origin] = given.keys();
  // If the connection has broken meanwhile, the caller's command fails without being sent.
  if (wire.isLost || (origin !== undefined && id < (known.get(origin) ?? 0))) return;
  throw new OtherServer(
    `${what}: nothing was sent, because the server is another one now: it was replaced, restored from a backup, or restarted without its log`,
  );
}
