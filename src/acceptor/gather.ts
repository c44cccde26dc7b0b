// `stats` and `list-tubes`: every shard brings its part up to date or sends it, then the reply is put together.

import { latin1 } from "../base/bytes.ts";
import { ResponseKind } from "../message/response.ts";
import type { Connection } from "./connection.ts";
import type { Conversation } from "./conversation.ts";

/** Waits for an Ack of each shard, then answers with the text that `compose` makes. */
export class GatherStats implements Conversation {
  readonly #connection: Connection;
  readonly #compose: () => string;
  #left: number;

  constructor(connection: Connection, shards: number, compose: () => string) {
    this.#connection = connection;
    this.#left = shards;
    this.#compose = compose;
  }

  onSignal(_shard: number, kind: number): void {
    // A late WaitDue of a reserve that has ended is none of our business.
    if (kind === ResponseKind.Ack && --this.#left === 0) this.#connection.finishWithText(this.#compose());
  }

  onReply(): void {}
}

/** Collects the tubes of all shards and lists them in the order of their creation. */
export class GatherTubes implements Conversation {
  readonly #connection: Connection;
  readonly #tubes: { sequence: number; name: string }[] = [];
  #left: number;

  constructor(connection: Connection, shards: number) {
    this.#connection = connection;
    this.#left = shards;
  }

  onTubes(bytes: Uint8Array, at: number, length: number): void {
    const view = new DataView(bytes.buffer, bytes.byteOffset);
    for (let entry = at; entry < at + length; ) {
      const nameBytes = view.getUint32(entry + 8, true);
      this.#tubes.push({
        sequence: view.getFloat64(entry, true),
        name: latin1(bytes, entry + 12, entry + 12 + nameBytes),
      });
      entry += 12 + nameBytes;
    }
  }

  onSignal(_shard: number, kind: number): void {
    if (kind !== ResponseKind.Ack || --this.#left > 0) return;
    this.#tubes.sort((a, b) => a.sequence - b.sequence);
    this.#connection.finishWithText(tubeListText(this.#tubes.map((tube) => tube.name)));
  }

  onReply(): void {}
}

/** The YAML of a list of tubes. */
export function tubeListText(names: readonly string[]): string {
  return `---\n${names.map((name) => `- ${name}\n`).join("")}`;
}
