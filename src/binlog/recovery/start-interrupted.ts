// A server that is stopped while it still reads its log: nothing was served, so there is nothing to finish.

export class StartInterrupted extends Error {
  constructor() {
    super("stopped while the log was being read");
    this.name = "StartInterrupted";
  }

  /** Throws it if the server is to stop: between two steps that leave a log as a crash there would. */
  static check(stopping: (() => boolean) | undefined): void {
    if (stopping?.() === true) throw new StartInterrupted();
  }
}
