// A shortage of file descriptors. New descriptors get the lowest free number, so one near the limit
// means that all but the reserve are in use. Its connection is accepted only to be closed at once,
// which affects no other client. The log reports the shortage once, and once more when it is over.

/** Descriptors left to other threads such as the log's; with a low limit, only this share of it. */
const DESCRIPTORS_KEPT = 32;
const DESCRIPTORS_KEPT_SHARE = 1 / 8;
/** A shortage of descriptors ends at this share of the connections at its start. */
const OPEN_AGAIN_SHARE = 0.95;

export class DescriptorShortage {
  /** Connections with this descriptor or a higher one are closed. */
  readonly end: number;
  readonly #tell: (level: "info" | "error", message: string) => void;
  /** Connections at the moment the descriptors ran out; 0 while there are free ones. */
  #openAtLimit = 0;

  constructor(descriptorsMax: number, tell: (level: "info" | "error", message: string) => void) {
    const kept = Math.min(DESCRIPTORS_KEPT, Math.floor(descriptorsMax * DESCRIPTORS_KEPT_SHARE));
    this.end = descriptorsMax - kept;
    this.#tell = tell;
  }

  /** Notes a connection beyond the last usable descriptor, with `open` connections. */
  begin(open: number): void {
    if (this.#openAtLimit > 0) return;
    this.#openAtLimit = Math.max(1, open);
    this.#tell(
      "error",
      `out of file descriptors with ${open} connections: new ones are closed until others end; raise the limit (ulimit -n, LimitNOFILE)`,
    );
  }

  /** Notes that a connection has ended and `open` are left. */
  noteOpen(open: number): void {
    if (open >= this.#openAtLimit * OPEN_AGAIN_SHARE) return;
    this.#openAtLimit = 0;
    this.#tell("info", "file descriptors are free again: new connections are served");
  }
}
