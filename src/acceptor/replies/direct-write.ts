// Writes to a socket's handle without the stream machinery of node:net in between, where Node lets us.
//
// `socket.write` costs a request object, a callback and a next-tick for every reply, about a tenth of an
// acceptor's time, although nearly every write is done when the call returns. The handle's own method tells
// so at once. Node keeps it internal, so its absence or a change of its shape turns this off, and replies go
// through `socket.write`. So does RUNNERBEAN_STREAM_WRITES=1 in the environment, for the tests of that way
// and for finding out whether a fault lies here.

/** What node:net calls on a socket's handle. */
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
    const binding = (process as unknown as { binding(name: string): Partial<StreamWrap> }).binding(
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
/** One request for all writes that are done at once: only one that isn't keeps its request. */
let request: WriteRequest | undefined;

export const WriteResult = { Done: 0, Pending: 1, Failed: 2, Unavailable: 3 } as const;
export type WriteResult = (typeof WriteResult)[keyof typeof WriteResult];

/**
 * Writes `buffer`. After Pending the bytes belong to the kernel until `onComplete` is called with a status.
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
