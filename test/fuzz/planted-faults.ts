// Planted faults that the fuzzers must find: each breaks the acceptor from outside, in the test
// tree only.

import type { AcceptorCore } from "../../src/acceptor/connection/acceptor-core.ts";
import type { Connection } from "../../src/acceptor/connection/connection.ts";
import { Counter } from "../../src/message/topology.ts";
import { type CommandParser, Syntax } from "../../src/protocol/command-parser.ts";
import type { Plant } from "./stream-target.ts";

interface PlantedFault {
  readonly name: string;
  /** The fuzzer that has to find it. */
  readonly fuzzer: "bytes" | "splitting";
  readonly plant: Plant;
}

/** Changes what arrives in each read of a connection. */
function tamperingReads(change: (bytes: string) => string): Plant {
  return (core) => {
    onConnect(core, (connection) => {
      const onBytes = connection.onBytes.bind(connection);
      connection.onBytes = (bytes, length) => {
        const changed = Buffer.from(
          change(Buffer.from(bytes.subarray(0, length)).toString("latin1")),
          "latin1",
        );
        if (changed.length > 0) onBytes(changed, changed.length);
      };
    });
  };
}

function onConnect(core: AcceptorCore, plant: (connection: Connection) => void): void {
  const connect = core.connect.bind(core);
  core.connect = (transport) => {
    const connection = connect(transport);
    if (connection !== undefined) plant(connection);
    return connection;
  };
}

/** Changes what is made of each line. */
function tamperingParser(
  change: (parser: CommandParser, line: string, parse: (line: string) => Syntax) => Syntax,
): Plant {
  return ({ parser }) => {
    const parse = parser.parse.bind(parser);
    parser.parse = (bytes, start, end) => {
      const line = Buffer.from(bytes.subarray(start, end)).toString("latin1");
      // Tube names are told as positions in the array, so a line that is not changed is parsed
      // where it is.
      return change(parser, line, (wanted) => {
        if (wanted === line) return parse(bytes, start, end);
        return parse(Buffer.from(wanted, "latin1"), 0, wanted.length);
      });
    };
  };
}

export const PLANTED_FAULTS: readonly PlantedFault[] = [
  {
    name: "a CR at the end of a read is lost",
    fuzzer: "splitting",
    plant: tamperingReads((bytes) => (bytes.endsWith("\r") ? bytes.slice(0, -1) : bytes)),
  },
  {
    name: "an LF at the start of a read is taken for the rest of a line's end",
    fuzzer: "splitting",
    plant: tamperingReads((bytes) => (/^\n./s.test(bytes) ? bytes.slice(1) : bytes)),
  },
  {
    name: "a blank at the start of a read is skipped",
    fuzzer: "splitting",
    plant: tamperingReads((bytes) => bytes.replace(/^ (?=.)/s, "")),
  },
  {
    name: "a line of 225 bytes is accepted",
    fuzzer: "bytes",
    plant: tamperingReads((bytes) => bytes.replace(/(^|\r\n)(?=[^\r\n]{223}\r\n)./gs, "$1")),
  },
  {
    name: "a byte is dropped after a bad body",
    fuzzer: "bytes",
    plant: (core) => {
      let isBehindBadBody = false;
      onConnect(core, ({ replies }) => {
        const append = replies.append.bind(replies);
        replies.append = (bytes, at, length) => {
          append(bytes, at, length);
          isBehindBadBody = Buffer.from(bytes.subarray(at, at + length)).includes("EXPECTED_CRLF");
        };
      });
      const parse = core.parser.parse.bind(core.parser);
      core.parser.parse = (bytes, start, end) => {
        const skipped = isBehindBadBody && end > start ? 1 : 0;
        isBehindBadBody = false;
        return parse(bytes, start + skipped, end);
      };
    },
  },
  {
    name: "a number just above u32 is accepted",
    fuzzer: "bytes",
    plant: tamperingParser((_, line, parse) => parse(line.replace(/ 4294967296( |$)/, " 4294967295$1"))),
  },
  {
    name: "an id just above u64 is accepted",
    fuzzer: "bytes",
    plant: tamperingParser((_, line, parse) =>
      parse(line.replace("18446744073709551616", "18446744073709551615")),
    ),
  },
  {
    name: "a body one byte above the limit is accepted",
    fuzzer: "bytes",
    plant: ({ parser }) => {
      const parse = parser.parse.bind(parser);
      let jobBytesMax = 0;
      parser.parse = (bytes, start, end) => {
        const syntax = parse(bytes, start, end);
        const { bodyBytes } = parser.request;
        if (syntax === Syntax.Ok && bodyBytes > jobBytesMax) jobBytesMax = bodyBytes;
        return syntax === Syntax.TooBig && bodyBytes === jobBytesMax + 1 ? Syntax.Ok : syntax;
      };
    },
  },
  {
    name: "a blank at the end of a command is ignored",
    fuzzer: "bytes",
    plant: tamperingParser((_, line, parse) => parse(/^[a-z-]+ \d+ $/.test(line) ? line.trimEnd() : line)),
  },
  {
    name: "a NUL in a tube's name passes",
    fuzzer: "bytes",
    plant: tamperingReads((bytes) => bytes.replace(/^((?:.*\r\n)?use [a-z]*)\0/s, "$1")),
  },
  {
    name: "a closed connection stays a worker",
    fuzzer: "bytes",
    plant: (core) => {
      onConnect(core, (connection) => {
        const onForgotten = connection.onForgotten.bind(connection);
        connection.onForgotten = () => {
          const workers = core.counters[Counter.Workers]!;
          onForgotten();
          core.counters[Counter.Workers] = workers;
        };
      });
    },
  },
];
