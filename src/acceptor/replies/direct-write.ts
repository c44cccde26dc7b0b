// Writes to a socket's handle directly, bypassing the stream machinery of node:net, where Node
// permits it.
//
// For every reply, `socket.write` costs a request object, a callback and a next-tick: about a tenth
// of an acceptor's time. Nearly every write is complete when the call returns, and the handle's own
// method reports that at once. The method is internal to Node. If it is missing or has changed
// shape, replies go through `socket.write`. RUNNERBEAN_STREAM_WRITES=1 in the environment forces
// that too, for tests and for diagnosis.

/** The method of a socket's handle that node:net calls. */
interface WritableHandle {
  writeBuffer(request: object, buffer: Uint8Array): number;
}

interface StreamWrap {
  WriteWrap: new () => WriteRequest;
  streamBaseState: Int32Array;
  kLastWriteWasAsync: number;
}

interface WriteRequest {
  oncomplete?: (status: number) => void;
  /** Keeps the bytes alive until the kernel has them. */
  buffer?: Uint8Array;
}

function internals(): StreamWrap | undefined {
  if (process.env["RUNNERBEAN_STREAM_WRITES"] === "1") return undefined;
  try {
    const binding = (process as NodeJS.Process & { binding(name: string): Partial<StreamWrap> }).binding(
      "stream_wrap",
    );
    const { WriteWrap, streamBaseState, kLastWriteWasAsync } = binding;
    if (typeof WriteWrap !== "function" || typeof kLastWriteWasAsync !== "number") return undefined;
    if (!(streamBaseState instanceof Int32Array)) return undefined;
    return { WriteWrap, streamBaseState, kLastWriteWasAsync };
  } catch {
    return undefined;
  }
}

const wrap = internals();
/**
 * One request object for all writes that complete at once. Only an unfinished write keeps its
 * request.
 */
let request: WriteRequest | undefined;

export const WriteResult = { Done: 0, Pending: 1, Failed: 2, Unavailable: 3 } as const;
export type WriteResult = (typeof WriteResult)[keyof typeof WriteResult];

/**
 * Writes `buffer`. After Pending, the bytes belong to the kernel until `onComplete` is called with
 * a status.
 */
export function directWrite(
  handle: unknown,
  buffer: Uint8Array,
  onComplete: (status: number) => void,
): WriteResult {
  if (wrap === undefined || typeof (handle as Partial<WritableHandle> | null)?.writeBuffer !== "function") {
    return WriteResult.Unavailable;
  }
  request ??= new wrap.WriteWrap();
  const status = (handle as WritableHandle).writeBuffer(request, buffer);
  if (status !== 0) return WriteResult.Failed;
  if (wrap.streamBaseState[wrap.kLastWriteWasAsync] === 0) return WriteResult.Done;
  request.buffer = buffer;
  request.oncomplete = onComplete;
  request = undefined;
  return WriteResult.Pending;
}
