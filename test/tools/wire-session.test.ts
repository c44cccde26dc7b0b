// Tests of the operator commands against foreign or silent servers: they end in time, with an exit
// code and a line that explains it, and never claim that something was done.

import assert from "node:assert/strict";
import { createServer as createHttpServer, type ServerResponse } from "node:http";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { after, describe, it } from "node:test";
import { runTool } from "../support/server/tool.ts";
import { skipVariant } from "../support/whole.ts";

const servers: Server[] = [];
const sockets = new Set<Socket>();
after(() => {
  for (const server of servers) server.close();
  for (const socket of sockets) socket.destroy();
});

async function portOf(server: Server): Promise<number> {
  servers.push(server);
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => {}).on("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

/** A server of the wire that answers each line as it is told; "" for nothing. */
const wire = async (answer: (line: string) => string): Promise<string> => {
  const server = createServer((socket) => {
    let text = "";
    socket.on("data", (chunk) => {
      text += chunk.toString("latin1");
      const lines = text.split("\r\n");
      text = lines.pop()!;
      for (const line of lines) socket.write(answer(line));
    });
  });
  return `beanstalk://127.0.0.1:${await portOf(server)}`;
};

const http = async (answer: (response: ServerResponse) => void): Promise<string> =>
  `http://127.0.0.1:${await portOf(createHttpServer((_request, response) => answer(response)))}`;

const WIRE_COMMANDS = [
  ["stats"],
  ["tubes"],
  ["tube", "a"],
  ["put", "a", "x"],
  ["peek", "1"],
  ["reserve", "a", "--wait", "0"],
  ["delete", "1"],
  ["kick", "a"],
  ["kick", "1"],
  ["pause", "a", "1"],
  ["jobs", "a"],
  ["clear", "a", "--yes"],
  ["move", "a", "b", "--yes"],
  ["update", "a", "--pri", "1", "--yes"],
  ["top", "-n", "1"],
  ["check", "--tube", "a", "--ready-warn", "1"],
];
const HTTP_COMMANDS = [
  ["health"],
  ["health", "--live"],
  ["server"],
  ["threads"],
  ["latency"],
  ["connections"],
  ["leases"],
  ["close", "0.1.1"],
  ["release", "1"],
  ["drain"],
  ["undrain"],
  ["reload"],
  ["binlog", "status"],
  ["check", "--tube", "a", "--ready-warn", "1"],
];

/** What, status, type and body. */
const STRANGE_ANSWERS = [
  ["a page", 200, "text/html", "<html>some other program</html>"],
  ["an empty object", 200, "application/json", "{}"],
  ["other JSON", 200, "application/json", '{"items":1,"status":200,"id":"x","draining":"yes","jobs":{}}'],
  ["a redirect", 302, "text/plain", ""],
  ["an error of a proxy", 502, "text/html", "<html>bad gateway</html>"],
] as const;

/** No connection, as both the commands and plugins of Nagios say it. */
const NO_CONNECTION = 3;

/** `more` arguments. */
async function saysNo(
  command: readonly string[],
  url: string,
  codes: readonly number[],
  ...more: readonly string[]
): Promise<string> {
  const { code, stdout, stderr } = await runTool([...command, "--url", url, ...more]);
  const said = stdout + stderr;
  assert.ok(codes.includes(code ?? -1), `${command.join(" ")}: ${code}, ${said}`);
  assert.doesNotMatch(said, /^ {4}at /m, command.join(" "));
  assert.equal(said.trim().split("\n").length, 1, said);
  return said;
}

describe("cli against foreign servers", { concurrency: 2 }, () => {
  for (const [index, command] of WIRE_COMMANDS.entries()) {
    it(`${command.join(" ")} ends without an answer`, { skip: skipVariant(index, 2) }, async () => {
      const silent = await wire(() => "");
      assert.match(
        await saysNo(command, silent, [NO_CONNECTION], "--timeout", "1"),
        /no answer within 1000 ms/,
      );
    });
  }

  for (const [index, command] of HTTP_COMMANDS.entries()) {
    const name = command.join(" ");
    it(`${name} over HTTP ends without an answer`, { skip: skipVariant(index, 2) }, async () => {
      const silent = await http(() => {});
      assert.match(
        await saysNo(command, silent, [NO_CONNECTION], "--timeout", "1"),
        /no answer within 1000 ms/,
      );
    });

    for (const [place, [what, status, type, body]] of STRANGE_ANSWERS.entries()) {
      it(`${name} rejects ${what} as an answer`, { skip: skipVariant(index + place, 5) }, async () => {
        const other = await http((response) => {
          response.writeHead(status, { "content-type": type }).end(body);
        });
        assert.match(await saysNo(command, other, [NO_CONNECTION]), /not as runnerbean does/);
      });
    }
  }

  it("rejects an answer of more bytes than it keeps", async () => {
    const body = JSON.stringify({ detail: "ä".repeat(33 << 20) });
    const other = await http((response) => response.writeHead(200).end(body));
    assert.match(await saysNo(["health"], other, [NO_CONNECTION]), /the answer is too long/);
  });

  for (const [what, answer, command, why] of [
    [
      "a report without numbers",
      "OK 0\r\n\r\n",
      ["check", "--tube", "a", "--ready-warn", "1"],
      /reports no current-jobs-ready/,
    ],
    ["a put without an id", "INSERTED\r\n", ["put", "default", "x"], /has no number/],
    ["a kick without a count", "KICKED x\r\n", ["kick", "default"], /has no number/],
    ["stats that are not found", "NOT_FOUND\r\n", ["stats"], /NOT_FOUND/],
    ["HTTP", "HTTP/1.1 400 Bad Request\r\n\r\n", ["stats"], /is not a valid reply/],
  ] as const) {
    it(`rejects ${what}`, async () => {
      const other = await wire((line) => (line === "x" ? "" : answer));
      assert.match(await saysNo(command, other, what.startsWith("stats") ? [1] : [NO_CONNECTION]), why);
    });
  }

  const known = ["list-jobs", "clear-tube", "name", "open-batch", "set-schedule"];
  const extensions = `---\n${known.map((name) => `${name}: 1\n`).join("")}`;
  for (const [what, text, commands, why] of [
    [
      "lists that begin again and again",
      "next: 5\nitems: []\n",
      ["batch list", "jobs a", "failures"],
      /goes on after 5/,
    ],
    ["lists of schedules that do", 'next: "a"\nitems: []\n', ["schedule list"], /goes on after "a"/],
    [
      "lists without a place to go on",
      "nope\n",
      ["batch list", "jobs a", "schedule list"],
      /where a list goes on/,
    ],
    [
      "items of another kind",
      "next: 0\nitems:\n- 7\n",
      ["batch list", "jobs a"],
      /"7" is not a (?:batch|job)/,
    ],
    ["schedules of another kind", 'next: ""\nitems:\n- 7\n', ["schedule list"], /"7" is not a schedule/],
    ["a report of something else", 'next: "tomorrow"\n', ["schedule show a"], /"tomorrow" is not a time/],
    ["a report without what it must have", "name: a\n", ["schedule show a"], /shows as nextRuns/],
    ["a report in another form", "next-runs: [\n", ["schedule show a"], /is not JSON/],
    [
      "names that no tube can have",
      "- $(touch a)\n- `id`\n",
      ["tubes", "tubes --names", "top -n 1"],
      /the name of a tube/,
    ],
  ] as const)
    it(`rejects ${what}`, { timeout: 60_000 }, async () => {
      const other = await wire((line) => {
        const body = line === "extensions" ? extensions : `---\n${text}`;
        return `OK ${body.length}\r\n${body}\r\n`;
      });
      for (const command of commands)
        assert.match(await saysNo(command.split(" "), other, [NO_CONNECTION]), why);
    });

  it("rejects jobs that aren't JSON, and a wrong count", async () => {
    const answers = (line: string): string => {
      if (line === "extensions") return `OK ${extensions.length}\r\n${extensions}\r\n`;
      if (line.startsWith("list-jobs")) return "OK 26\r\n---\nnext: 0\njobs:\n- {nope\n\r\n";
      return "CLEARED many\r\n";
    };
    const other = await wire(answers);
    assert.match(await saysNo(["jobs", "a"], other, [NO_CONNECTION]), /is not a job/);
    assert.match(await saysNo(["clear", "a", "--yes"], other, [NO_CONNECTION]), /has no number/);
  });
});
