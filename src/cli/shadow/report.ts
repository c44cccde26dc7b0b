// The report of a shadow: differences as JSON lines, and a summary. A reader that stalls loses
// lines and never holds anything up.

import { createWriteStream, type WriteStream } from "node:fs";
import { printableLines } from "../../base/printable.ts";

const STDOUT = 1;
/** Maximum of unwritten bytes. */
const PENDING_BYTES_MAX = 1 << 20;

interface ShadowCounts {
  connections: number;
  /** Connections that are no longer shadowed. */
  dropped: number;
  commands: number;
  same: number;
  different: number;
  /** Commands that can't be repeated: waits that ended without a job, and those on older jobs. */
  skipped: number;
}

export class ShadowReport {
  readonly counts: ShadowCounts = {
    connections: 0,
    dropped: 0,
    commands: 0,
    same: 0,
    different: 0,
    skipped: 0,
  };
  #lost = 0;
  /** The thread pool writes it: a write to a pipe through process.stdout would block. */
  readonly #output: WriteStream = createWriteStream("", { fd: STDOUT, autoClose: false });

  constructor() {
    this.#output.on("error", () => {});
  }

  write(event: string, fields: Readonly<Record<string, unknown>>): void {
    if (this.#output.destroyed || this.#output.writableLength > PENDING_BYTES_MAX) {
      this.#lost++;
      return;
    }
    const line = JSON.stringify({ event, at: new Date().toISOString(), ...fields });
    this.#output.write(`${printableLines(line)}\n`);
  }

  summary(unmapped: number): void {
    this.write("summary", { ...this.counts, unmapped, linesLost: this.#lost });
  }

  /** Resolves when everything is written, or after `limitMs`. */
  end(limitMs: number): Promise<void> {
    return new Promise((resolve) => {
      setTimeout(resolve, limitMs).unref();
      this.#output.end(() => resolve());
    });
  }
}
