// Tests of every file that a start or a reload reads, with every fault: a start, `config check` and
// a reload refuse it in the same words, and a refused reload changes nothing.

import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { connect } from "node:tls";
import { readKeyPair, readOperatorFile } from "../../src/config/operator-file.ts";
import { configFaults } from "../../src/server/tools/config-command.ts";
import { type Certificates, makeCertificates } from "../support/certificates.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/machine/free-port.ts";
import { missing, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { newToken } from "../support/server/guarded-server.ts";
import { launch, ourMain, type ServerProcess, TEST_ENV } from "../support/server/server-process.ts";
import { untilItSays } from "../support/server/until-it-says.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { atNight } from "../support/whole.ts";

/** Faults of which one is tried at a start, too. */
const STARTS_APART = atNight(1, 3);
const skip = missing(NEEDS.openssl) ?? false;
const openssl = (...args: string[]): Buffer =>
  execFileSync("openssl", args, { stdio: ["ignore", "pipe", "pipe"] });

type Name = "config" | "tokens" | "tubes" | "cert" | "key" | "ca" | "httpCert" | "httpKey" | "httpCa";

/** What messages call each file, after the name of the listener that uses it. */
const SAID: Readonly<Record<Name, RegExp>> = {
  config: /the configuration/,
  tokens: /the token file/,
  tubes: /the tubes file/,
  cert: /127\.0\.0\.1:\d+: the certificate/,
  key: /127\.0\.0\.1:\d+: the key/,
  ca: /127\.0\.0\.1:\d+: the CA file/,
  httpCert: /http: the certificate/,
  httpKey: /http: the key/,
  httpCa: /http: the CA file/,
};
const NAMES = Object.keys(SAID) as Name[];
const PEM = NAMES.slice(3);
/** HTTP reads its files as a listener does: the first faults are enough. */
const FEW = NAMES.slice(0, 6);

/** A folder with one file of each kind, and a configuration that names them. */
class Files {
  readonly folder: string;
  readonly paths: Readonly<Record<Name, string>>;
  readonly certificates: Certificates;
  readonly #good: Readonly<Record<Name, Buffer>>;
  readonly token = newToken("ann", "admin");
  readonly ports: { tls: number; http: number };

  private constructor(t: TestContext, ports: { tls: number; http: number }) {
    this.folder = temporaryFolder(t, "operator-files");
    this.ports = ports;
    this.certificates = makeCertificates(temporaryFolder(t, "certificates"));
    const { cert, key, ca } = this.certificates;
    const from = { cert, key, ca, httpCert: cert, httpKey: key, httpCa: ca };
    this.paths = Object.fromEntries(NAMES.map((name) => [name, join(this.folder, name)])) as Record<
      Name,
      string
    >;
    const paths = this.paths;
    for (const name of PEM) copyFileSync(from[name as keyof typeof from], paths[name]);
    writeFileSync(paths.tokens, this.token.line, { mode: 0o600 });
    writeFileSync(paths.tubes, "mails max-attempts=3\n");
    writeFileSync(
      paths.config,
      `token-file = "${paths.tokens}"
tubes = "${paths.tubes}"
[http]
listen = "127.0.0.1:${ports.http}"
tls = { cert = "${paths.httpCert}", key = "${paths.httpKey}", client-ca = "${paths.httpCa}" }
[[listener]]
address = "127.0.0.1:${ports.tls}"
auth = "token"
tls = { cert = "${paths.cert}", key = "${paths.key}", client-ca = "${paths.ca}" }
`,
    );
    this.#good = Object.fromEntries(NAMES.map((name) => [name, readFileSync(paths[name])])) as Record<
      Name,
      Buffer
    >;
  }

  static async make(t: TestContext): Promise<Files> {
    return new Files(t, { tls: await freePort(), http: await freePort() });
  }

  good(name: Name): Buffer {
    return this.#good[name];
  }

  write(name: Name, bytes: Buffer | string): void {
    rmSync(this.paths[name], { recursive: true, force: true });
    writeFileSync(this.paths[name], bytes, { mode: 0o600 });
  }

  restore(): void {
    for (const name of NAMES) this.write(name, this.#good[name]);
  }

  /** Returns what `config check` says; "" if it finds nothing. */
  check(): string {
    return configFaults(this.paths.config, []);
  }

  launch(): Promise<ServerProcess> {
    return launch({ kind: "ours", flags: ["--config", this.paths.config] });
  }

  /** Proves that TLS, the client's certificate and the token work, and returns the certificate. */
  async proveServing(): Promise<string> {
    const { ca, clientCert, clientKey } = this.certificates;
    const client = { ca: readFileSync(ca), cert: readFileSync(clientCert), key: readFileSync(clientKey) };
    let shown = "";
    for (const port of [this.ports.tls, this.ports.http]) {
      const where = { host: "127.0.0.1", port, servername: "localhost", rejectUnauthorized: false };
      const socket = connect({ ...where, ...client });
      const wire = new WireClient(socket);
      if (port === this.ports.tls)
        assert.equal((await wire.ask(`auth ${this.token.secret}`)).line, "AUTHENTICATED");
      else {
        wire.send(
          `GET /v1/stats HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${this.token.secret}\r\n\r\n`,
        );
        assert.match((await wire.readReply()).line, /^HTTP\/1.1 200 /);
      }
      shown += socket.getPeerCertificate().fingerprint256;
      wire.close();
    }
    return shown;
  }
}

interface Bad {
  readonly what: string;
  readonly files: readonly Name[];
  readonly says: RegExp;
  readonly make: (files: Files, name: Name) => void;
}

const bytes =
  (make: (good: Buffer, files: Files) => Buffer | string): Bad["make"] =>
  (files, name) =>
    files.write(name, make(files.good(name), files));

const FAULTS: readonly Bad[] = [
  {
    what: "missing",
    files: NAMES,
    says: /does not exist \(ENOENT\)/,
    make: ({ paths }, name) => rmSync(paths[name]),
  },
  { what: "empty", files: NAMES, says: /is empty/, make: bytes(() => "") },
  { what: "blank", files: NAMES, says: /is blank/, make: bytes(() => "\n \r\n\t") },
  { what: "full of NULs", files: FEW, says: /holds NUL bytes/, make: bytes(() => Buffer.alloc(1000)) },
  {
    what: "UTF-16",
    files: FEW,
    says: /is UTF-16/,
    make: bytes((good) => Buffer.from(`\ufeff${good}`, "utf16le")),
  },
  {
    what: "a directory",
    files: FEW,
    says: /is a directory; name a file/,
    make: ({ paths }, name) => {
      rmSync(paths[name]);
      mkdirSync(paths[name]);
    },
  },
  {
    what: "a FIFO",
    files: NAMES,
    says: /is a FIFO or a device; name a regular file/,
    make: ({ paths }, name) => {
      rmSync(paths[name]);
      execFileSync("mkfifo", [paths[name]]);
    },
  },
  {
    what: "too large",
    files: FEW,
    says: /is larger than \d+ bytes/,
    make: bytes(() => Buffer.alloc(5 << 20, "# x\n")),
  },
  {
    what: "cut in the middle",
    files: PEM,
    says: /is cut: what begins in line 1 is not whole/,
    make: bytes((good) => good.subarray(0, 150)),
  },
  {
    what: "text",
    files: PEM.slice(0, 3),
    says: /holds no (?:certificate|private key) in PEM/,
    make: bytes(() => "# to be done\n"),
  },
  {
    what: "a key",
    files: NAMES.filter((name) => !/[kK]ey/.test(name)),
    says: /holds a private key/,
    make: bytes((_, files) => files.good("key")),
  },
  {
    what: "a certificate",
    files: ["key", "httpKey", "tokens", "tubes", "config"],
    says: /holds a certificate/,
    make: bytes((_, files) => files.good("cert")),
  },
  {
    what: "damaged",
    files: PEM.slice(0, 3),
    says: /is damaged: .* not a (?:certificate|private key)/,
    make: bytes((good) => `${good}`.replace(/^M\w+/m, (word) => word.replace(/./g, "A"))),
  },
  {
    what: "DER",
    files: ["cert", "ca", "httpCert"],
    says: /is binary/,
    make: bytes((_, { certificates }) => openssl("x509", "-in", certificates.cert, "-outform", "der")),
  },
  {
    what: "encrypted",
    files: ["key", "httpKey"],
    says: /is encrypted; decrypt it with: openssl pkey/,
    make: bytes((_, { certificates }) =>
      openssl("pkey", "-in", certificates.key, "-aes256", "-passout", "pass:x"),
    ),
  },
  {
    what: "encrypted in the old form",
    files: ["key"],
    says: /is encrypted; decrypt it with: openssl pkey/,
    make: bytes((_, { certificates }) =>
      openssl("ec", "-in", certificates.key, "-aes256", "-passout", "pass:x"),
    ),
  },
  {
    what: "of another pair",
    files: ["key", "httpKey"],
    says: /does not belong to the certificate/,
    make: bytes((_, { certificates }) => readFileSync(certificates.clientKey)),
  },
  {
    what: "no CA",
    files: ["ca", "httpCa"],
    says: /holds no CA/,
    make: bytes((_, { certificates }) => readFileSync(certificates.cert)),
  },
  {
    what: "open to writers",
    files: ["tokens"],
    says: /can be written by users other than its owner/,
    make: ({ paths }) => void execFileSync("chmod", ["666", paths.tokens]),
  },
  {
    what: "comments only",
    files: ["tokens"],
    says: /:1: no line has a token/,
    make: bytes(() => "# name role hash\n"),
  },
  {
    what: "cut in its last line",
    files: ["tokens"],
    says: /:1: the third word is not a hash/,
    make: bytes((good) => good.subarray(0, 40)),
  },
  {
    what: "not UTF-8",
    files: ["config", "tokens", "tubes"],
    says: /is not UTF-8/,
    make: bytes((good) => Buffer.concat([good, Buffer.from([0x23, 0xff, 0xff, 0x0a])])),
  },
];

/** Returns the part of a message that all of them share: the file and its fault. */
function shared(message: string, { says }: Bad, path: string): string {
  assert.match(message, says);
  const line = message.split("\n").find((each) => says.test(each))!;
  return line.slice(line.indexOf(path)).replace(/"\}?$/, "");
}

const saidBy = (server: ServerProcess): string =>
  server.stderr
    .trimEnd()
    .split("\n")
    .map((line) => (line.startsWith("{") ? (JSON.parse(line) as { msg: string }).msg : line))
    .join("\n");

describe("a file of the operator that can't be used", { skip }, () => {
  it("is refused by config check and a start in the same words, and a reload changes nothing", async (t) => {
    const files = await Files.make(t);
    assert.equal(files.check(), "");
    const server = await files.launch();
    t.after(() => server.kill());
    await untilItSays(server, /serves on/);
    const before = await files.proveServing();

    // Some faults, and one of each file, at a start, all of each file at a reload: a start takes
    // longer.
    const started = new Set<string>();
    for (const [index, bad] of FAULTS.entries()) {
      for (const [turn, name] of bad.files.entries()) {
        const what = `${name} is ${bad.what}`;
        bad.make(files, name);
        const path = files.paths[name];
        const from = server.stderr.length;
        server.signal("SIGHUP");
        const told = (): string => server.stderr.slice(from);
        await eventually(what, () => /SIGHUP: .*\n/.test(told()));
        const reload = saidBy({ stderr: told() } as ServerProcess);
        assert.match(reload, /SIGHUP: everything stays as it was: /, what);
        const words = shared(reload, bad, path);
        assert.equal(shared(files.check(), bad, path), words, what);
        // A fault that a parser finds has the path and the line instead of the kind.
        if (!reload.includes(`${path}:1: `)) assert.match(reload, new RegExp(`${SAID[name].source} `), what);
        const isStarted = index % STARTS_APART === 0 && turn === index % bad.files.length;
        if (isStarted || !started.has(name)) {
          started.add(name);
          const refused = await files.launch();
          const { code } = await refused.refused();
          assert.equal(code, 5, what);
          assert.equal(shared(saidBy(refused), bad, path), words, what);
        }
        files.restore();
      }
    }
    assert.deepEqual([...started].sort(), [...NAMES].sort());
    assert.equal(await files.proveServing(), before);
    assert.equal(server.hasExited, false);
  });

  it("is refused wherever a certificate or a key is cut", async (t) => {
    const files = await Files.make(t);
    const { cert, key } = files.paths;
    for (const name of ["cert", "key", "ca"] as const) {
      const whole = files.good(name);
      // Without the end of the last line, nothing is missing.
      for (let length = 0; length < whole.length - 1; length++) {
        files.write(name, whole.subarray(0, length));
        const read = (): unknown =>
          name === "ca" ? readOperatorFile("ca", files.paths.ca) : readKeyPair(cert, key);
        assert.throws(
          read,
          /the (?:certificate|key|CA file) \S+ (?:is (?:cut|empty)|holds no)/,
          `${name}, ${length}`,
        );
      }
      files.restore();
    }
    const chain = Buffer.concat([files.good("cert"), files.good("ca")]);
    for (let length = files.good("cert").length + 1; length < chain.length - 1; length++) {
      files.write("cert", chain.subarray(0, length));
      assert.throws(
        () => readKeyPair(cert, key),
        /is cut: what begins in line \d+ is not whole/,
        `${length}`,
      );
    }
  });

  it("is accepted with CR LF and a byte order mark, whatever its kind", async (t) => {
    const files = await Files.make(t);
    for (const name of NAMES) {
      const text = `${files.good(name)}`;
      files.write(name, `\ufeff${text.replaceAll("\n", "\r\n")}`);
    }
    assert.equal(files.check(), "");
    const server = await files.launch();
    t.after(() => server.kill());
    await untilItSays(server, /serves on/);
    await files.proveServing();
    // The same without them: nothing is new.
    files.restore();
    server.signal("SIGHUP");
    await untilItSays(server, /SIGHUP: configuration read again; changed: nothing"/);
  });
});

describe("a reload with good files", { skip }, () => {
  it("works, and names what is new: tokens, certificates, keys, CAs and the tubes file", async (t) => {
    const files = await Files.make(t);
    const worker = newToken("bob", "worker");
    files.write("tokens", `${files.token.line}${worker.line}`);
    const server = await files.launch();
    t.after(() => server.kill());
    await untilItSays(server, /serves on/);
    const before = await files.proveServing();
    const reloadSays = async (words: string): Promise<void> => {
      const from = server.stderr.length;
      server.signal("SIGHUP");
      await eventually(words, () => server.stderr.slice(from).includes("SIGHUP: "));
      assert.ok(server.stderr.slice(from).includes(`changed: ${words}"`), server.stderr.slice(from));
    };
    await reloadSays("nothing");
    const [carl, limited] = [newToken("carl", "viewer").line, worker.line.replace("\n", "tubes=a\n")];
    files.write("tokens", `${files.token.line}${carl}${limited}`);
    await reloadSays("token carl added, token bob changed");
    files.write("tokens", files.token.line);
    await reloadSays("token carl removed, token bob removed");

    const renewed = makeCertificates(temporaryFolder(t, "renewed"), 20);
    for (const [name, from] of [
      ["cert", renewed.cert],
      ["key", renewed.key],
    ] as const)
      files.write(name, readFileSync(from));
    const ends = new Date(
      Date.parse(`${openssl("x509", "-in", renewed.cert, "-noout", "-enddate")}`.slice(9)),
    );
    const tls = `127.0.0.1:${files.ports.tls}`;
    await reloadSays(`certificate of ${tls} (ends ${ends.toISOString().slice(0, 10)}), key of ${tls}`);
    await eventually("the new one is shown", async () => (await files.proveServing()) !== before);
    files.write("httpCa", Buffer.concat([files.good("ca"), readFileSync(renewed.ca)]));
    await reloadSays("client CAs of http");
    files.write("tubes", "mails max-attempts=4\n");
    await reloadSays("nothing; needs a restart: tubes");
  });

  it('revokes all tokens with the line "# no tokens", which `token remove` leaves', async (t) => {
    const files = await Files.make(t);
    const server = await files.launch();
    t.after(() => server.kill());
    await untilItSays(server, /serves on/);
    const tool = (...args: string[]): void => {
      const given = [ourMain(TEST_ENV), "token", ...args, "--token-file", files.paths.tokens];
      const { status, stderr } = spawnSync(process.execPath, given, { encoding: "utf8", env: TEST_ENV });
      assert.equal(status, 0, stderr);
    };
    tool("remove", "ann");
    assert.equal(readFileSync(files.paths.tokens, "utf8"), "# no tokens\n");
    assert.equal(files.check(), "");
    server.signal("SIGHUP");
    await untilItSays(server, /SIGHUP: configuration read again; changed: token ann removed"/);
    await assert.rejects(files.proveServing(), /UNAUTHORIZED|AUTHENTICATED/);
    tool("add", "dora", "--role", "viewer");
    assert.match(readFileSync(files.paths.tokens, "utf8"), /^dora viewer sha256:[\da-f]{64}\n$/);
  });
});
