// Modules of Node and packages that the simulated server imports and never calls: it reads its log
// in one thread.

function unused(): never {
  throw new Error("the simulator does not call this in a browser");
}

export const availableParallelism: typeof unused = unused;
export const Piscina: typeof unused = unused;

const clock = globalThis.performance;

export { clock as performance };
