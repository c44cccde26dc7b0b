// Reader of whole job bodies. Each read uses a separate connection, because a large body would hold
// up other replies.

import type { JobPlaces } from "../../acceptor/state/job-places.ts";
import { Busy } from "./busy.ts";
import type { ControlClient } from "./control-client.ts";
import type { WireClients } from "./wire-clients.ts";

/** Maximum of bytes in progress for all clients. One body is always read, however large. */
const BYTES_MAX = 128 * 1024 * 1024;

export class Bodies {
  readonly #wire: WireClients;
  readonly #control: ControlClient;
  readonly #places: JobPlaces;
  #bytes = 0;

  constructor(wire: WireClients, control: ControlClient, places: JobPlaces) {
    this.#places = places;
    this.#wire = wire;
    this.#control = control;
  }

  /** Returns the body, or undefined if the job doesn't exist. */
  async read(id: number): Promise<Buffer | undefined> {
    const bytes = await this.#bytesOf(id);
    if (bytes === undefined) return undefined;
    if (this.#bytes > 0 && this.#bytes + bytes > BYTES_MAX)
      throw new Busy("too many bytes of bodies are under way");
    // Throws if no slot is free, so bytes are counted only afterwards.
    const connection = this.#wire.open();
    this.#bytes += bytes;
    try {
      return (await connection.command(`peek ${id}`)).body;
    } finally {
      this.#bytes -= bytes;
      connection.close();
    }
  }

  async #bytesOf(id: number): Promise<number | undefined> {
    const entry = this.#places.jobEntry(id);
    const facts = await this.#control.askAll("job", { id, bodyMax: -1 });
    const found = facts.find((each) => each !== null);
    if (found !== undefined && found !== null) return found.bytes;
    // The job has moved to another shard in the meantime.
    return this.#places.jobEntry(id) === entry ? undefined : this.#bytesOf(id);
  }
}
