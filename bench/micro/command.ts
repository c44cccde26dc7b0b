// Whole commands without sockets: acceptor, rings and shard in one thread, from the bytes of a line
// to those of its reply.
import type { Connection } from "../../src/acceptor/connection/connection.ts";
import { latin1 } from "../../src/base/bytes.ts";
import { HandDrivenClient, HandDrivenServer } from "../../test/support/in-process/hand-driven-server.ts";
import type { MicroBenchmark } from "./micro-benchmark.ts";

const PIPELINE = 16;
const BODY = "x".repeat(64);
const TUBE = "emails";
const KEY = "welcome-user-0000000";
const KEY_DIGITS = 7;

/** What a put looks like; where a key's digits begin in it, if it has a key. */
interface PutLine {
  readonly text: string;
  readonly digitsAt: number;
}

function putLine(line: string, key = ""): PutLine {
  const text = `${line}${key}\r\n${BODY}\r\n`;
  return { text, digitsAt: key === "" ? -1 : line.length + key.length - KEY_DIGITS };
}

const FACTS = `0 0 60 ${BODY.length}`;

/** Takes the ids out of what it is sent, and counts the rest. */
class CountingClient extends HandDrivenClient {
  readonly ids: string[] = [];
  deleted = 0;

  constructor() {
    super(true);
  }

  override send(buffer: Uint8Array, length: number): boolean {
    const replies = latin1(buffer, 0, length).split("\r\n");
    for (const reply of replies) {
      if (reply.startsWith("INSERTED ")) this.ids.push(reply.slice(9));
      else if (reply === "DELETED") this.deleted++;
    }
    return true;
  }
}

/**
 * Puts `PIPELINE` jobs with one write and deletes them with the next. With `reserves`, a client of
 * its own reserves and deletes them.
 */
function cycle(name: string, line: PutLine, reserves = false): MicroBenchmark {
  return {
    subject: "command",
    name,
    operations: 50_000,
    smallOperations: 1000,
    // Every job that was put was deleted.
    expected: (operations) => operations,
    open(operations) {
      const server = new HandDrivenServer(1);
      const client = new CountingClient();
      const connection: Connection = server.acceptor.connect(client)!;
      client.connection = connection;
      client.say(`use ${TUBE}\r\n`);
      const worker = new CountingClient();
      worker.connection = server.acceptor.connect(worker)!;
      worker.say(`watch ${TUBE}\r\n`);
      server.settle();
      const lineBytes = line.text.length;
      const puts = Buffer.from(line.text.repeat(PIPELINE), "latin1");
      let key = 0;
      const writeKeys = (): void => {
        for (let i = 0; i < PIPELINE && line.digitsAt >= 0; i++) {
          let rest = key++;
          for (let digit = KEY_DIGITS - 1; digit >= 0; digit--) {
            puts[i * lineBytes + line.digitsAt + digit] = 48 + (rest % 10);
            rest = Math.floor(rest / 10);
          }
        }
      };
      return {
        run() {
          client.deleted = 0;
          worker.deleted = 0;
          for (let left = operations; left > 0; left -= PIPELINE) {
            const count = Math.min(left, PIPELINE);
            client.ids.length = 0;
            writeKeys();
            connection.onBytes(puts, count * lineBytes);
            server.settle();
            if (reserves) {
              worker.say("reserve\r\n".repeat(count));
              server.settle();
            }
            const deletes = client.ids.map((id) => `delete ${id}\r\n`).join("");
            (reserves ? worker : client).say(deletes);
            server.settle();
          }
          return client.deleted + worker.deleted;
        },
      };
    },
  };
}

export const COMMAND: readonly MicroBenchmark[] = [
  cycle("put and delete", putLine(`put ${FACTS}`)),
  cycle("put, reserve and delete", putLine(`put ${FACTS}`), true),
  cycle("put-in-tube and delete", putLine(`put-in-tube ${TUBE} ${FACTS}`)),
  cycle("put-in-tube with a unique key and delete", putLine(`put-in-tube ${TUBE} ${FACTS} unique=`, KEY)),
];
