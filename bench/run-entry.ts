// Runs a command-line entry: an operator's error is a message, not a stack; servers die with us on a signal.
export async function runEntry(entry: () => Promise<void>): Promise<void> {
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(130));
  try {
    await entry();
  } catch (error) {
    const { DEBUG } = process.env;
    console.error(DEBUG ? error : error instanceof Error ? error.message : `${error}`);
    process.exitCode = 1;
  }
}
