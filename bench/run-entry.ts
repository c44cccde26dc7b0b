// Runs a command-line entry point: an operator's error is a message without a stack, and a signal
// stops the servers too.
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
