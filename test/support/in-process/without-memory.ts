// Lets one allocation of memory fail.

/**
 * Runs `run` while the allocation number `failing`, from 1 on, throws. Returns whether there were
 * so many.
 */
export function withoutMemory(failing: number, run: () => void): boolean {
  const arrays = { ArrayBuffer, Int32Array, Uint32Array, Float64Array, Uint16Array, Uint8Array };
  let allocations = 0;
  for (const [name, array] of Object.entries(arrays)) {
    const construct = (target: new (...args: unknown[]) => object, args: unknown[]): object => {
      if (++allocations === failing) throw new RangeError("Array buffer allocation failed");
      return Reflect.construct(target, args);
    };
    Object.assign(globalThis, { [name]: new Proxy(array, { construct }) });
  }
  try {
    run();
  } finally {
    Object.assign(globalThis, arrays);
  }
  return allocations >= failing;
}
