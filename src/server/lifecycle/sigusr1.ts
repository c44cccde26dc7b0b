// SIGUSR1, which drains the server. Without --disable-sigusr1, Node opens a debugger's port on it
// until a handler is there, and with the flag, Node blocks the signal for good. So the launcher
// gives the flag, and the signal is unblocked once the handler is there: an earlier one is pending.

/** rt_sigprocmask, on x86-64 and arm64. */
const SYS_SIGPROCMASK = process.arch === "arm64" ? 135n : 14n;
const SIG_UNBLOCK = 1n;
const SIGUSR1_BIT = 1 << 9;
/** Bytes of the kernel's signal set. */
const SET_BYTES = 8;

export function onSigusr1(handler: () => void): void {
  process.on("SIGUSR1", handler);
  const set = new Int32Array(SET_BYTES / Int32Array.BYTES_PER_ELEMENT);
  set[0] = SIGUSR1_BIT;
  // Loaded only here, because it is experimental: see docs/differences.md.
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    const { dlopen, getRawPointer } = process.getBuiltinModule("node:ffi");
    const { functions } = dlopen(null, {
      syscall: { arguments: ["i64", "i64", "u64", "u64", "i64"], return: "i64" },
    });
    functions.syscall(SYS_SIGPROCMASK, SIG_UNBLOCK, getRawPointer(set), 0n, BigInt(SET_BYTES));
  } finally {
    process.emitWarning = emitWarning;
  }
}
