// Which threads write to each cache line of the memory that a server's threads share.
//
// Atomic writes are seen where they are made, also those that change nothing. Plain ones show as a
// difference between two looks, one after each step of a thread.

import type { Topology } from "../../../src/message/topology.ts";

const LINE_BYTES = 64;
/** The allocator aligns memory to 16 bytes: a line may begin at any of these before the buffer. */
export const SHIFTS = [0, 16, 32, 48] as const;
/** Plain writes to larger tables aren't looked for: threads write those by atomics only. */
const LOOKED_AT_MAX = 1 << 16;
const WRITES = ["store", "add", "sub", "exchange", "compareExchange"] as const;

export interface WrittenWord {
  readonly memory: string;
  readonly offset: number;
  readonly threads: readonly string[];
}

export interface SharedLine {
  /** The memory that it is in. */
  readonly memory: string;
  /** Offset of its first word that was written. */
  readonly offset: number;
  /** Writes by each thread. */
  readonly writes: ReadonlyMap<string, number>;
}

export class LineWriters {
  readonly #names = new Map<SharedArrayBuffer, string>();
  readonly #looked: { readonly now: Int32Array; readonly seen: Int32Array; readonly name: string }[] = [];
  /** Writes by memory, then offset, then thread. */
  readonly #writes = new Map<string, Map<number, Map<string, number>>>();

  constructor(memories: ReadonlyMap<string, SharedArrayBuffer>) {
    for (const [name, buffer] of memories) {
      this.#names.set(buffer, name);
      if (buffer.byteLength > LOOKED_AT_MAX) continue;
      const now = new Int32Array(buffer);
      this.#looked.push({ now, seen: now.slice(), name });
    }
  }

  /** Notes the atomic writes during `work`, each as of the thread that `running` names then. */
  during(running: () => string, work: () => void): void {
    const originals: Record<string, unknown> = {};
    for (const name of WRITES) {
      const write: (...written: readonly never[]) => unknown = Atomics[name];
      originals[name] = write;
      const noting = (...written: readonly never[]): unknown => {
        const [array, index] = written as readonly unknown[] as [Int32Array<SharedArrayBuffer>, number];
        const result = write(...written);
        this.#noteAtomic(array, index, running());
        return result;
      };
      Object.assign(Atomics, { [name]: noting });
    }
    try {
      work();
    } finally {
      Object.assign(Atomics, originals);
    }
  }

  #noteAtomic(array: Int32Array<SharedArrayBuffer>, index: number, thread: string): void {
    const name = this.#names.get(array.buffer);
    if (name === undefined) return;
    const offset = array.byteOffset + index * array.BYTES_PER_ELEMENT;
    this.#note(name, offset, thread);
    // It is no plain write as well.
    const looked = this.#looked.find((each) => each.name === name);
    if (looked !== undefined) looked.seen[offset >> 2] = looked.now[offset >> 2]!;
  }

  /** Begins anew. */
  forget(): void {
    this.look("");
    this.#writes.clear();
  }

  /** Notes what has changed since the last look as written by `thread`. */
  look(thread: string): void {
    for (const { now, seen, name } of this.#looked) {
      for (let word = 0; word < now.length; word++) {
        if (now[word] === seen[word]) continue;
        this.#note(name, word * 4, thread);
        seen[word] = now[word]!;
      }
    }
  }

  #note(name: string, offset: number, thread: string): void {
    const offsets = this.#writes.get(name) ?? new Map<number, Map<string, number>>();
    this.#writes.set(name, offsets);
    const threads = offsets.get(offset) ?? new Map<string, number>();
    offsets.set(offset, threads);
    threads.set(thread, (threads.get(thread) ?? 0) + 1);
  }

  /** Every word that was written. */
  words(): WrittenWord[] {
    return [...this.#writes].flatMap(([memory, offsets]) =>
      [...offsets].map(([offset, threads]) => ({ memory, offset, threads: [...threads.keys()] })),
    );
  }

  /** The lines that several threads have written, however the memory is aligned. */
  shared(): SharedLine[] {
    return [...this.#writes].flatMap(([memory, offsets]) =>
      SHIFTS.flatMap((shift) => {
        const lines = new Map<number, SharedLine & { readonly writes: Map<string, number> }>();
        for (const [offset, threads] of [...offsets].sort(([a], [b]) => a - b)) {
          const line = Math.floor((offset + shift) / LINE_BYTES);
          const found = lines.get(line) ?? { memory, offset, writes: new Map<string, number>() };
          lines.set(line, found);
          for (const [thread, count] of threads)
            found.writes.set(thread, (found.writes.get(thread) ?? 0) + count);
        }
        return [...lines.values()].filter(({ writes }) => writes.size > 1);
      }),
    );
  }
}

/** All memory of a topology, by the names of docs/architecture/shared-memory.md. */
export function memoriesOf(topology: Topology): Map<string, SharedArrayBuffer> {
  const found = new Map<string, SharedArrayBuffer>();
  const add = (name: string, value: unknown): void => {
    if (value instanceof SharedArrayBuffer) found.set(name, value);
    else if (Array.isArray(value))
      for (const [index, each] of value.entries()) add(`${name}[${index}]`, each);
    else if (typeof value === "object" && value !== null)
      for (const [key, each] of Object.entries(value)) add(name === "" ? key : `${name}.${key}`, each);
  };
  add("", topology);
  return found;
}
