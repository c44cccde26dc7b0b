import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { BodyArena, BodyPlace, CELL_BYTES_MAX, EMPTY_BODY } from "../../../../src/engine/jobs/body-arena.ts";
import { checkProperty } from "../../../support/seeded-property.ts";

const MIB = 1 << 20;

/** Bytes that tell bodies apart. */
function bodyOf(bytes: number, salt: number): Uint8Array {
  const body = new Uint8Array(bytes);
  for (let i = 0; i < bytes; i++) body[i] = (i * 31 + salt * 7 + (i >> 8)) & 0xff;
  return body;
}

function store(arena: BodyArena, body: Uint8Array, piece = Number.POSITIVE_INFINITY): number {
  const handle = arena.allocate(body.length);
  for (let at = 0; at < body.length; at += piece) {
    arena.write(handle, at, body, at, Math.min(piece, body.length - at));
  }
  return handle;
}

function load(arena: BodyArena, handle: number, bytes: number): Uint8Array {
  const target = new Uint8Array(bytes + 2).fill(0xee);
  arena.read(handle, 0, target, 1, bytes);
  assert.deepEqual([target[0], target[bytes + 1]], [0xee, 0xee]);
  return target.subarray(1, bytes + 1);
}

const size = fc.oneof(
  fc.nat(300),
  fc.constantFrom(
    0,
    1,
    16,
    17,
    256,
    257,
    320,
    321,
    512,
    513,
    CELL_BYTES_MAX - 1,
    CELL_BYTES_MAX,
    CELL_BYTES_MAX + 1,
  ),
  fc.nat(CELL_BYTES_MAX + 10),
);
const step = fc.oneof(
  { weight: 3, arbitrary: fc.record({ store: size, salt: fc.nat(255) }) },
  { weight: 2, arbitrary: fc.record({ change: fc.constant("free" as const), which: fc.nat() }) },
  { weight: 1, arbitrary: fc.record({ change: fc.constant("pin" as const), which: fc.nat() }) },
  { weight: 1, arbitrary: fc.record({ change: fc.constant("unpin" as const), which: fc.nat() }) },
);

interface Kept {
  handle: number;
  body: Uint8Array;
  pins: number;
  freed: boolean;
}

function change(arena: BodyArena, chosen: Kept, how: "free" | "pin" | "unpin"): void {
  if (how === "free" && !chosen.freed) {
    chosen.freed = true;
    arena.free(chosen.handle);
  } else if (how === "pin" && chosen.handle !== EMPTY_BODY && !chosen.freed) {
    chosen.pins++;
    arena.pin(chosen.handle);
  } else if (how === "unpin" && chosen.pins > 0) {
    chosen.pins--;
    arena.unpin(chosen.handle);
  }
}

describe("BodyArena", () => {
  it("keeps a body until it is freed and unpinned, and never shares a handle", (t) => {
    checkProperty(
      t,
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        const arena = new BodyArena();
        let kept: Kept[] = [];
        for (const each of steps) {
          if ("store" in each) {
            const body = bodyOf(each.store, each.salt);
            const handle = store(arena, body);
            assert.ok(handle === EMPTY_BODY || !kept.some((other) => other.handle === handle));
            assert.equal(handle === EMPTY_BODY, body.length === 0);
            kept.push({ handle, body, pins: 0, freed: false });
          } else if (kept.length > 0) {
            change(arena, kept[each.which % kept.length]!, each.change);
            kept = kept.filter((one) => !one.freed || one.pins > 0);
          }
        }
        for (const { handle, body } of kept) assert.deepEqual(load(arena, handle, body.length), body);
      }),
      40,
    );
  });

  it("stores a body of every size around each cell size whole", () => {
    const arena = new BodyArena();
    const sizes = [];
    for (let bytes = 0; bytes <= 600; bytes++) sizes.push(bytes);
    for (let base = 1024; base <= CELL_BYTES_MAX; base *= 2) {
      for (const quarter of [0, 0.25, 0.5, 0.75]) {
        const edge = base * (1 + quarter);
        if (edge <= CELL_BYTES_MAX) sizes.push(edge - 1, edge, edge + 1);
      }
    }
    const stored = sizes.map((bytes) => ({ bytes, handle: store(arena, bodyOf(bytes, bytes)) }));
    for (const { bytes, handle } of stored)
      assert.deepEqual(load(arena, handle, bytes), bodyOf(bytes, bytes), `${bytes} bytes`);
  });

  it("returns the place of bytes for writers and readers", () => {
    const arena = new BodyArena();
    const place = new BodyPlace();
    for (const bytes of [20_000, CELL_BYTES_MAX, CELL_BYTES_MAX + 1, MIB, 2 * MIB + 100]) {
      const body = bodyOf(bytes, bytes);
      const handle = arena.allocate(bytes);
      // Some come by `write`, also where room has been found and not used.
      arena.write(handle, 0, body, 0, 1000);
      for (let done = 1000; done < bytes; ) {
        arena.findRoom(handle, done, bytes - done, place);
        assert.ok(place.length > 0 && done + place.length <= bytes);
        const came = Math.ceil(place.length / 2);
        place.bytes.set(body.subarray(done, done + came), place.at);
        arena.filled(handle, came);
        done += came;
        if (done < bytes) arena.write(handle, done, body, done, 1);
        done = Math.min(bytes, done + 1);
      }
      assert.deepEqual(load(arena, handle, bytes), body);
      for (let done = 0; done < bytes; done += place.length) {
        arena.locate(handle, done, bytes - done, place);
        const lies = place.bytes.subarray(place.at, place.at + place.length);
        assert.equal(Buffer.compare(lies, body.subarray(done, done + place.length)), 0);
      }
      arena.free(handle);
    }
    assert.equal(arena.usedBytes, 0);
  });

  it("has no room for the next block of a big body beyond its limit", () => {
    const arena = new BodyArena(MIB);
    const handle = arena.allocate(3 * MIB);
    arena.write(handle, 0, new Uint8Array(MIB), 0, MIB);
    assert.throws(() => arena.findRoom(handle, MIB, MIB, new BodyPlace()), RangeError);
    arena.free(handle);
    assert.equal(arena.reservedBytes, 0);
  });

  it("reads a part of a body, also over the blocks of a big one", () => {
    const arena = new BodyArena();
    const body = bodyOf(3 * MIB + 100, 5);
    const handle = store(arena, body, 99_999);
    for (const [offset, length] of [
      [0, 10],
      [MIB - 5, 10],
      [MIB, MIB],
      [3 * MIB - 1, 101],
      [7, 3 * MIB],
    ] as const) {
      const part = new Uint8Array(length);
      arena.read(handle, offset, part, 0, length);
      assert.deepEqual(part, body.subarray(offset, offset + length));
    }
    arena.free(handle);
    assert.equal(arena.reservedBytes, 0);
  });

  it("allocates a big body as its bytes arrive", () => {
    const arena = new BodyArena();
    const handle = arena.allocate(1 << 30);
    assert.equal(arena.reservedBytes, 0);
    arena.write(handle, 0, new Uint8Array(10), 0, 10);
    assert.equal(arena.reservedBytes, MIB);
    arena.free(handle);
    assert.equal(arena.reservedBytes, 0);
  });

  it("refuses to write a big body out of order", () => {
    const arena = new BodyArena();
    const handle = arena.allocate(CELL_BYTES_MAX + 1);
    assert.throws(() => arena.write(handle, 5, new Uint8Array(1), 0, 1), /a big body is written in order/);
  });

  it("frees all slabs except the last of each size when the bodies are gone", () => {
    const arena = new BodyArena();
    const handles = Array.from({ length: 100_000 }, () => arena.allocate(64));
    const fullBytes = arena.reservedBytes;
    assert.ok(fullBytes >= 100_000 * 64 && fullBytes < 100_000 * 64 + MIB, `${fullBytes}`);
    for (const handle of handles) arena.free(handle);
    assert.ok(arena.reservedBytes <= MIB, `${arena.reservedBytes} of ${fullBytes} are kept`);
  });

  it("keeps at most 8 MiB of empty slabs of large cells", () => {
    const arena = new BodyArena();
    for (const bodyBytes of [60_000, 60_000, 20_000, 60_000]) {
      const before = arena.reservedBytes;
      const handles = Array.from({ length: 20 * Math.floor(MIB / bodyBytes) }, () =>
        arena.allocate(bodyBytes),
      );
      const fullBytes = arena.reservedBytes;
      assert.ok(fullBytes >= 20 * (MIB - 65_536) && fullBytes <= before + 24 * MIB, `${fullBytes}`);
      for (const handle of handles) arena.free(handle);
      // And the last slab of both sizes.
      assert.ok(arena.reservedBytes <= 10 * MIB, `${arena.reservedBytes} of ${fullBytes} are kept`);
      assert.ok(arena.reservedBytes >= 8 * MIB, `${arena.reservedBytes} of ${fullBytes} are kept`);
    }
  });

  it("reuses freed cells before it allocates more", () => {
    const arena = new BodyArena();
    const handles = Array.from({ length: 40_000 }, () => arena.allocate(64));
    const before = arena.reservedBytes;
    for (const handle of handles.filter((_, i) => i % 2 === 0)) arena.free(handle);
    for (let i = 0; i < 20_000; i++) arena.allocate(64);
    assert.equal(arena.reservedBytes, before);
  });

  it("wastes at most a fifth of a cell above 256 bytes", () => {
    for (let bytes = 257; bytes <= CELL_BYTES_MAX; bytes += 13) {
      const arena = new BodyArena();
      arena.allocate(bytes);
      const cells = Math.floor(MIB / bytes);
      // Bodies that fit with a fifth of each cell wasted must share one slab.
      if (bytes > 20_000) continue;
      for (let i = 1; i < Math.floor(cells * 0.78); i++) arena.allocate(bytes);
      assert.ok(arena.reservedBytes <= MIB, `${bytes} bytes`);
      bytes += bytes >> 3;
    }
  });

  it("throws RangeError at its limit, keeps its bodies, and works again once there is room", () => {
    const arena = new BodyArena(2 * MIB);
    const first = store(arena, bodyOf(100, 1));
    const big = arena.allocate(5 * MIB);
    arena.write(big, 0, new Uint8Array(MIB), 0, MIB);
    assert.throws(() => arena.write(big, MIB, new Uint8Array(1), 0, 1), RangeError);
    assert.throws(() => arena.allocate(5000), RangeError);
    assert.deepEqual(load(arena, first, 100), bodyOf(100, 1));
    arena.free(big);
    assert.deepEqual(load(arena, store(arena, bodyOf(5000, 2)), 5000), bodyOf(5000, 2));
  });

  it("keeps a freed body for as long as it is pinned", () => {
    const arena = new BodyArena();
    const body = bodyOf(100_000, 3);
    const handle = store(arena, body);
    arena.pin(handle);
    arena.pin(handle);
    arena.free(handle);
    arena.unpin(handle);
    assert.notEqual(store(arena, bodyOf(100_000, 4)), handle);
    assert.deepEqual(load(arena, handle, body.length), body);
    const before = arena.reservedBytes;
    arena.unpin(handle);
    assert.equal(arena.reservedBytes, before - MIB);
    assert.throws(() => arena.unpin(handle), /only a pinned body is unpinned/);
  });
});
