// The least that a server in JavaScript can do: put, reserve and delete of one tube, in order of
// arrival, without times, priorities, checks, log or threads. It shows which part of a figure no
// server on Node can avoid. The bench starts it like a server that it compares with:
//
//     npm run bench:native -- --burn 2 --connections 1 --pipeline 1 --scenario put-reserve-delete \
//       --theirs beanstalkd --theirs "floor=bin/node bench/server/floor-server.ts"
import { createServer, type Socket } from "node:net";

const args = process.argv.slice(2);
const given = (flag: string): string => args[args.indexOf(flag) + 1]!;

const LF = 10;
const BLANK = 32;
const [PUT, RESERVE, DELETE, USE] = [0x70, 0x72, 0x64, 0x75];
/** Ids that have been reserved are forgotten so many at once. */
const FORGET = 1000;
const [ZERO, NINE] = [48, 57];

/** Bodies, with the end of their lines, by id. */
const bodies = new Map<number, Buffer>();
const ready: number[] = [];
let nextReady = 0;
let lastId = 0;

/** Reads a number of decimal digits up to a blank or the end of the line. */
function numberAt(bytes: Buffer, from: number): number {
  let value = 0;
  for (let at = from; bytes[at]! >= ZERO && bytes[at]! <= NINE; at++) value = value * 10 + bytes[at]! - ZERO;
  return value;
}

/** Executes the command between two positions. `next` is where the one after it begins. */
function replyTo(bytes: Buffer, from: number, end: number, next: number): string {
  switch (bytes[from]) {
    case PUT:
      bodies.set(++lastId, bytes.subarray(end + 2, next));
      ready.push(lastId);
      return `INSERTED ${lastId}\r\n`;
    case RESERVE: {
      const id = ready[nextReady++]!;
      const body = bodies.get(id)!;
      return `RESERVED ${id} ${body.length - 2}\r\n${body.toString("latin1")}`;
    }
    case DELETE:
      bodies.delete(numberAt(bytes, from + "delete ".length));
      return "DELETED\r\n";
    default:
      return bytes[from] === USE ? "USING bench\r\n" : "WATCHING 1\r\n";
  }
}

function serve(socket: Socket): void {
  let rest: Buffer = Buffer.alloc(0);
  socket.setNoDelay(true);
  socket.on("error", () => {});
  socket.on("data", (chunk: Buffer) => {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let from = 0;
    let replies = "";
    for (let end = bytes.indexOf(LF); end > 0; end = bytes.indexOf(LF, from)) {
      const isPut = bytes[from] === PUT;
      const next = end + 1 + (isPut ? numberAt(bytes, bytes.lastIndexOf(BLANK, end) + 1) + 2 : 0);
      if (next > bytes.length) break;
      replies += replyTo(bytes, from, end - 1, next);
      from = next;
    }
    rest = bytes.subarray(from);
    if (nextReady > FORGET) {
      ready.splice(0, nextReady);
      nextReady = 0;
    }
    if (replies !== "") socket.write(replies, "latin1");
  });
}

createServer(serve).listen(Number(given("-p")), given("-l"));
