// Recipe: imports of tenants that share the workers fairly, each with a callback at its end.

import { BatchConflict, json, type Queue } from "../../src/client/client.ts";

// page: begin
interface Row {
  readonly tenant: string;
  readonly importId: string;
  readonly row: string;
}

/**
 * Rows of one tenant are a group: the server takes turns, so a small import doesn't wait for a
 * large one. Call it again if it fails: the keys of rows that are there already are duplicates.
 */
export async function importRows(
  queue: Queue<Row>,
  tenant: string,
  importId: string,
  rows: AsyncIterable<string> | Iterable<string>,
): Promise<void> {
  const name = `import-${importId}`;
  const batch = queue.batch(name);
  await batch.open({ keep: 7 * 86_400 }).catch(async (error) => {
    // An earlier call has opened it.
    if (!(error instanceof BatchConflict) || (await batch.inspect()).state !== "open") throw error;
  });
  const bodies = (async function* () {
    for await (const row of rows) yield { tenant, importId, row };
  })();
  await queue.putMany("rows", bodies, (_row, index) => ({
    ...{ batch: name, group: tenant, unique: `${importId}:${index}`, uniqueFor: 86_400 },
  }));
  // The tenant hears of the end, whether or not rows have failed.
  const end = { tenant, importId, row: "" };
  await queue.put("imports-ended", end, { afterAny: name, unique: importId, uniqueFor: 86_400 });
  await batch.commit();
}

/** Says how an import ended; for the worker of `imports-ended`. */
export async function resultOf(queue: Queue<Row>, importId: string): Promise<string> {
  const { done, failed } = await queue.batch(`import-${importId}`).inspect();
  return `${done} rows imported, ${failed} failed`;
}

export const codec = json<Row>();
// page: end
