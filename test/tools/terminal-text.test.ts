// Text from outside reaches no terminal raw: bodies, names, reasons, and the answers of hostile
// servers, through every command of the command line, and through the server's own log.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { after, before, describe, it } from "node:test";
import { createLog } from "../../src/server/options/log.ts";
import { allCommands } from "../../src/server/tools/subcommands.ts";
import { type HttpServer, startHttpServer } from "../support/server/http-server.ts";
import { ourMain, TEST_ENV } from "../support/server/server-process.ts";
import { runTool } from "../support/server/tool.ts";

/** Sets a title, clears the screen in seven and in eight bits, and turns the text around. */
const HOSTILE = "\u001b]0;title\u0007\u001b[2J\u009b31m\u202egnp.exe\u2066\u200f\u061c\u2028\u007f";
const RAW = /(?![\n\t])[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/u;
/** The heads of tables on a terminal, and the colours of the log. */
const withoutStyle = (text: string): string => text.replaceAll(/\p{Cc}\[\d+m/gu, "");

/** Arguments of each command that prints text from a server, or repeats its arguments. */
const COMMANDS: Readonly<Record<string, readonly string[][]>> = {
  backup: [["out"]],
  batch: [["list"], ["show", "x"], ["open", "x"], ["commit", "x"], ["cancel", "x"]],
  cancel: [["1"]],
  check: [["--tube", "t", "--ready-warn", "1"]],
  clear: [["t", "--yes"]],
  close: [["0.1.1"]],
  connections: [[]],
  delete: [["1"]],
  drain: [[]],
  failures: [[], ["--recent"]],
  health: [[]],
  history: [["t"], []],
  jobs: [["t"], ["*"]],
  kick: [["t"], ["1"]],
  latency: [[]],
  leases: [[]],
  move: [["t", "u", "--yes"]],
  pause: [["t", "1"]],
  peek: [["1"], ["1", "--stats"]],
  put: [["t", "x"]],
  redrive: [["t", "--yes"]],
  release: [["1"]],
  reload: [[]],
  reserve: [["t", "--wait", "0"]],
  resume: [["t"]],
  schedule: [["list"], ["show", "x"], ["pause", "x"], ["run", "x"], ["delete", "x"]],
  server: [[]],
  settings: [["list"], ["show", "x"], ["set", "x", "max-attempts=3"]],
  stats: [[]],
  threads: [[]],
  top: [["-n", "1"]],
  tube: [["t"]],
  tubes: [[], ["--names"]],
  undrain: [[]],
  update: [["t", "--pri", "1", "--yes"]],
};
/** Commands that print nothing from a server, or serve until they are ended. */
const OTHERS = "binlog completion config doctor help outbox proxy replica restore shadow token";

function mustBeEscaped(what: string, printed: string): void {
  const found = RAW.exec(withoutStyle(printed).replaceAll("\r\n", "\n"));
  const around = found === null ? "" : printed.slice(Math.max(0, found.index - 60), found.index + 20);
  assert.equal(found, null, `${what} prints ${JSON.stringify(found?.[0])}: ${JSON.stringify(around)}`);
}

/** Runs a command on a terminal of its own and returns what appears there. */
function onTerminal(args: readonly string[], env: NodeJS.ProcessEnv): Promise<string> {
  const quoted = [process.execPath, ourMain(TEST_ENV), ...args].map((word) => `'${word}'`).join(" ");
  const child = spawn("script", ["-qec", quoted, "/dev/null"], {
    env: { ...TEST_ENV, ...env, TERM: "xterm" },
    stdio: ["ignore", "pipe", "ignore"],
  });
  const chunks: Buffer[] = [];
  child.stdout.on("data", (chunk: Buffer) => chunks.push(chunk));
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", () => resolve(Buffer.concat(chunks).toString()));
  });
}

const open: Server[] = [];
after(() => {
  for (const server of open) server.close();
});

async function portOf(server: Server): Promise<number> {
  open.push(server);
  server.on("connection", (socket: Socket) => socket.unref().on("error", () => {}));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

const YAML = `---\nname: "t"\nid: "${HOSTILE}"\n"${HOSTILE}": 1\n`;
const withBody = (words: string, body: string): string =>
  `${words} ${Buffer.byteLength(body)}\r\n${body}\r\n`;

/** A beanstalkd whose every text is hostile; `isPlausible`, or with replies that nobody expects. */
const hostileWire = (isPlausible: boolean): Server =>
  createServer((socket) => {
    let text = "";
    socket.on("data", (chunk) => {
      text += chunk.toString("latin1");
      const lines = text.split("\r\n");
      text = lines.pop()!;
      for (const line of lines) {
        const [word = ""] = line.split(" ");
        if (!isPlausible) socket.write(`${HOSTILE}\r\n`);
        else if (word.startsWith("list-tubes")) socket.write(withBody("OK", `---\n- t\n- ${HOSTILE}\n`));
        else if (word.startsWith("peek")) socket.write(withBody("FOUND 1", HOSTILE));
        else if (word.startsWith("reserve")) socket.write(withBody("RESERVED 1", HOSTILE));
        else if (word === "watch" || word === "ignore") socket.write("WATCHING 1\r\n");
        else socket.write(withBody("OK", YAML));
      }
    });
  });

const hostileHttp = (status: number): Server =>
  createHttpServer((_request, response) => {
    const texts = { title: HOSTILE, detail: HOSTILE, code: HOSTILE, name: HOSTILE, [HOSTILE]: HOSTILE };
    response.writeHead(status, {
      "content-type": status === 200 ? "application/json" : "application/problem+json",
    });
    response.end(
      JSON.stringify({ ...texts, status: HOSTILE, items: [texts], jobs: [texts], checks: [texts] }),
    );
  });

describe("text from outside", () => {
  let ours: HttpServer;
  before(async () => {
    ours = await startHttpServer();
    for (const tube of "tttttu") {
      const { status } = await ours.ask(`/v1/tubes/${tube}/jobs`, { json: { body: HOSTILE } });
      assert.equal(status, 201);
    }
    const { json } = await ours.ask("/v1/reserve", { json: { tubes: ["u"], wait: 0 } });
    const buried = await ours.ask(`/v1/leases/${json.jobs[0].lease}/bury`, { json: { reason: HOSTILE } });
    assert.ok(buried.status < 300, buried.text);
  });
  after(() => ours.process.stop());

  it("is known of every command", async () => {
    const names = (await allCommands()).commands.map((command) => command.name());
    assert.deepEqual([...Object.keys(COMMANDS), ...OTHERS.split(" ")].sort(), names.sort());
  });

  it("reaches no terminal raw from our own server, also as JSON", async () => {
    const env = {
      RUNNERBEAN_URL: `beanstalk://127.0.0.1:${ours.process.port}`,
      RUNNERBEAN_HTTP_URL: ours.url,
    };
    for (const name of ["jobs", "peek", "reserve", "failures"])
      for (const args of COMMANDS[name]!)
        for (const json of [[], ["--json"]]) {
          const words = [name, ...args, ...json];
          const shown = await onTerminal(words, env);
          mustBeEscaped(words.join(" "), shown);
          assert.match(shown, args.includes("--stats") ? /\bt\b/ : /gnp\.exe/, words.join(" "));
        }
  });

  for (const isPlausible of [true, false])
    it(`is escaped if a hostile server ${isPlausible ? "answers with it" : "has no other words"}`, async () => {
      const env = {
        RUNNERBEAN_URL: `beanstalk://127.0.0.1:${await portOf(hostileWire(isPlausible))}`,
        RUNNERBEAN_HTTP_URL: `http://127.0.0.1:${await portOf(hostileHttp(isPlausible ? 200 : 500))}`,
      };
      const uses = Object.entries(COMMANDS).flatMap(([name, each]) => each.map((args) => [name, ...args]));
      const next = uses.values();
      let said = "";
      const work = async (): Promise<void> => {
        for (const words of next) {
          // In a pipe, peek and reserve pass the body's own bytes on.
          const json = words[0] === "peek" || words[0] === "reserve" ? ["--json"] : [];
          const limit = ["check", "connections"].includes(words[0]!) ? [] : ["--timeout", "2"];
          const { stdout, stderr } = await runTool([...words, ...json, ...limit], { env });
          const printed = Buffer.from(stdout + stderr, "latin1").toString();
          mustBeEscaped(words.join(" "), printed);
          said += printed;
        }
      };
      await Promise.all([work(), work(), work()]);
      assert.match(said, /gnp\.exe/);
    });

  it("is escaped where a command repeats its arguments", async () => {
    for (const name of ["tube", "batch", "check", "token", "binlog", "config", "replica", "completion"]) {
      const { stdout, stderr } = await runTool([name, HOSTILE, `--${HOSTILE}`]);
      mustBeEscaped(name, Buffer.from(stdout + stderr, "latin1").toString());
    }
    const { stdout, stderr } = await runTool(["help", HOSTILE]);
    mustBeEscaped("help", Buffer.from(stdout + stderr, "latin1").toString());
    const flag = await runTool([`--${HOSTILE}`]);
    mustBeEscaped("a flag", Buffer.from(flag.stdout + flag.stderr, "latin1").toString());
  });

  for (const form of ["json", "mixed", "terminal", "text", "journal"] as const)
    it(`is escaped in the server's log: ${form}`, async () => {
      let written = "";
      const { log } = await createLog(form, "info", (bytes) => {
        written += Buffer.from(bytes).toString();
        return bytes.length;
      });
      const error = new Error(`${HOSTILE}\nINFO: a line of its own`);
      log.info({ tube: HOSTILE, error }, `a tube ${HOSTILE}\nERROR: another line`);
      const plain = withoutStyle(written);
      mustBeEscaped("the log", plain);
      assert.match(plain, /gnp\.exe/);
      assert.doesNotMatch(plain, /^(?:INFO|ERROR): a/m);
      if (form === "json" || form === "mixed") assert.equal(JSON.parse(written).tube, HOSTILE);
      if (form === "journal") for (const line of written.trimEnd().split("\n")) assert.match(line, /^<6>/);
    });
});
