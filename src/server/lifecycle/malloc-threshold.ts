// Fixed mmap threshold of glibc's malloc. By default, glibc raises it as soon as a mapping is
// freed, and then keeps the memory that the engine's slabs release; a fixed threshold returns it to
// the system.

const VARIABLE = "MALLOC_MMAP_THRESHOLD_";
const BYTES = 262_144;

/**
 * Executes the process again with the variable that sets the threshold, unless it is set. Sockets
 * inherited from systemd would not survive that; its unit sets the variable itself.
 */
export function fixMallocThreshold(): void {
  const { env } = process;
  if (env[VARIABLE] !== undefined || env["LISTEN_FDS"] !== undefined || !process.execve) return;
  const environment = { ...env, [VARIABLE]: `${BYTES}` } as Record<string, string>;
  process.execve(
    process.execPath,
    [process.execPath, ...process.execArgv, ...process.argv.slice(1)],
    environment,
  );
}
