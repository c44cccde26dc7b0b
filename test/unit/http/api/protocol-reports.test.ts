// Tests of lists that are filtered while they are read.

import assert from "node:assert/strict";
import { it } from "node:test";
import { filteredList, type Rows } from "../../../../src/http/api/protocol-reports.ts";

/** The numbers up to `last`, in steps. */
function list(last: number) {
  const reads: number[] = [];
  const read = async (from = 0, limit: number): Promise<Rows<number, number>> => {
    reads.push(limit);
    const items = Array.from({ length: Math.min(limit, last - from) }, (_, index) => from + index + 1);
    return { items, next: from + items.length < last ? from + items.length : undefined };
  };
  const page = (from: number | undefined, limit: number, isMeant?: (row: number) => boolean) =>
    filteredList(read, from, limit, isMeant, (row) => row);
  return { reads, page };
}

it("a list without a filter is read as it is", async () => {
  const { reads, page } = list(5);
  assert.deepEqual(await page(undefined, 3), { items: [1, 2, 3], next: 3 });
  assert.deepEqual(reads, [3]);
});

it("a filtered list is read on until a page is full, and goes on behind it", async () => {
  const isMeant = (row: number): boolean => row % 900 === 0;
  const { reads, page } = list(3000);
  assert.deepEqual(await page(undefined, 2, isMeant), { items: [900, 1800], next: 1800 });
  assert.deepEqual(reads, [1000, 1000]);
  assert.deepEqual(await page(1800, 2, isMeant), { items: [2700], next: undefined });
  assert.deepEqual(await list(900).page(undefined, 1, isMeant), { items: [900], next: undefined });
});

it("a request reads 10,000 rows at most", async () => {
  const { reads, page } = list(50_000);
  assert.deepEqual(await page(undefined, 2, () => false), { items: [], next: 10_000 });
  assert.equal(reads.length, 10);
});
