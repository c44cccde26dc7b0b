// Error for a server that is stopped while it still reads its log. It has served no client, so
// there is nothing to finish.

export class StartInterrupted extends Error {
  constructor() {
    super("stopped while the log was being read");
    this.name = "StartInterrupted";
  }

  /**
   * Throws if the server is stopping. Call it between steps after which a stop leaves the log like
   * a crash would.
   */
  static check(stopping: (() => boolean) | undefined): void {
    if (stopping?.() === true) throw new StartInterrupted();
  }
}
