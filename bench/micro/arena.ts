// The arena of bodies: a body is stored, read and freed while others exist.
import { BodyArena } from "../../src/engine/jobs/body-arena.ts";
import type { MicroBenchmark } from "./micro-benchmark.ts";

/** Bytes in the arena, in bodies of one size. */
const STANDING_BYTES = 4 * 2 ** 20;

/** First bytes of the bodies, so that one of another body is noticed. */
const markOf = (number: number): number => number % 251;

function passing(name: string, bodyBytes: number, operations: number): MicroBenchmark {
  return {
    subject: "arena",
    name,
    operations,
    smallOperations: Math.ceil(operations / 100),
    expected(count) {
      let sum = 0;
      for (let i = 0; i < count; i++) sum += markOf(i) + bodyBytes;
      return sum;
    },
    open(count) {
      const arena = new BodyArena();
      const body = Buffer.alloc(bodyBytes, 0xff);
      const target = new Uint8Array(bodyBytes);
      const handles = new Float64Array(Math.min(Math.ceil(STANDING_BYTES / bodyBytes), count));
      const readAndFree = (handle: number): number => {
        arena.read(handle, 0, target, 0, bodyBytes);
        arena.free(handle);
        return target[0]! + bodyBytes;
      };
      return {
        run() {
          let sum = 0;
          for (let i = 0; i < count; i++) {
            const place = i % handles.length;
            if (i >= handles.length) sum += readAndFree(handles[place]!);
            body[0] = markOf(i);
            const handle = arena.allocate(bodyBytes);
            arena.write(handle, 0, body, 0, bodyBytes);
            handles[place] = handle;
          }
          for (const handle of handles) sum += readAndFree(handle);
          return sum;
        },
      };
    },
  };
}

export const ARENA: readonly MicroBenchmark[] = [
  passing("a body of 64 B comes, is read, goes", 64, 200_000),
  passing("a body of 1 KiB comes, is read, goes", 1024, 200_000),
  passing("a body of 16 KiB comes, is read, goes", 16 * 1024, 20_000),
  passing("a body of 128 KiB comes, is read, goes", 128 * 1024, 2000),
];
