// Tests of a running server's configuration: it reads the file, SIGHUP applies all of a change or
// nothing, and the tool reports faults.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { launch, ourMain, startServer, TEST_ENV } from "../support/server/server-process.ts";
import { untilItSays } from "../support/server/until-it-says.ts";
import { WireClient } from "../support/server/wire-client.ts";

describe("config", () => {
  it("takes effect from the file; SIGHUP applies what may change, names the rest, and changes nothing on an error", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const config = join(temporaryFolder(t, "config"), "runnerbean.toml");
    writeFileSync(config, 'max-job-size = "1K"\nlog-level = "info"\n');
    const server = await launch({ kind: "ours", flags: ["--config", config] });
    t.after(() => server.stop());
    await untilItSays(server, /serves on/);
    const client = await WireClient.connect(server.address);
    assert.match((await client.put("x".repeat(1025))).line, /^JOB_TOO_BIG$/);
    client.close();

    writeFileSync(config, 'max-job-size = "2K"\nlog-level = "nonsense"\nport = true\n');
    server.signal("SIGHUP");
    await untilItSays(
      server,
      /SIGHUP: everything stays as it was.*runnerbean\.toml:2: .*runnerbean\.toml:3: /s,
    );

    writeFileSync(config, 'max-job-size = "2K"\nlog-level = "debug"\n');
    server.signal("SIGHUP");
    await untilItSays(
      server,
      /SIGHUP: configuration read again; changed: log-level; needs a restart: max-job-size/,
    );
    assert.deepEqual(await server.stop(), { code: 0, signal: null });
  });

  it("that was not given lets SIGHUP end the server", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const server = await startServer({ kind: "ours" });
    server.signal("SIGHUP");
    assert.deepEqual(await server.exited, { code: null, signal: "SIGHUP" });
  });

  it("with an error stops the start with exit code 5", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const config = join(temporaryFolder(t, "config"), "bad.toml");
    writeFileSync(config, "max-jobsize = 1\n");
    const server = await launch({ kind: "ours", flags: ["--config", config] });
    assert.deepEqual(await server.exited, { code: 5, signal: null });
    assert.match(server.stderr, /bad\.toml:1: unknown key max-jobsize: did you mean max-job-size\?/);
  });

  it("is told where a key belongs that stands in a table by mistake", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const config = join(temporaryFolder(t, "config"), "late.toml");
    for (const [text, said] of [
      [
        '[http]\nlisten = "11380"\ntoken-file = "x"\n',
        /:3: unknown key http\.token-file: token-file belongs above the first line with \[\.\.\.\]$/m,
      ],
      [
        '[[listener]]\naddress = "127.0.0.1:0"\nmax-memory = "1G"\n',
        /:3: unknown key max-memory: max-memory belongs above the first line/,
      ],
      ["[http]\nlissen = 1\n", /:2: unknown key http\.lissen: did you mean http\.listen\?/],
    ] as const) {
      writeFileSync(config, text);
      const server = await launch({ kind: "ours", flags: ["--config", config] });
      assert.deepEqual(await server.exited, { code: 5, signal: null });
      assert.match(server.stderr, said);
    }
  });

  it("is checked as at a start: combinations, files, flags", (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const config = join(temporaryFolder(t, "config"), "c.toml");
    const check = (text: string, ...flags: string[]) => {
      writeFileSync(config, text);
      const args = [ourMain(TEST_ENV), "config", "check", config, ...flags];
      return spawnSync(process.execPath, args, { encoding: "utf8", env: TEST_ENV });
    };
    const open = '[http]\nlisten = "0.0.0.0:1"\n';
    for (const [text, fault] of [
      [open, /c\.toml: --http 0\.0\.0\.0:1 is reachable from other machines/],
      ["port = 99999\n", /c\.toml:1: port: invalid port: 99999 \(0 to 65535\)/],
      ['port = "no-such"\n', /c\.toml:1: port: unknown port or service: no-such/],
      ['[[listener]]\naddress = "a:99999"\n', /c\.toml:2: address: invalid port: 99999/],
      ["salvage = true\n", /--salvage needs -b/],
      ['token-file = "/nonexistent"\n', /c\.toml: the token file \/nonexistent does not exist \(ENOENT\)/],
      ['[http]\nlisten = "127.0.0.1:1"\ntls = { cert = "/x" }\n', /both --http-tls-cert and --http-tls-key/],
      ['[[listener]]\naddress = "a:1"\nauth = "token"\n', /a:1: auth = "token" needs a token-file/],
      [
        '[[listener]]\naddress = "a:1"\ntls = { cert = "/x", key = "/y" }\n',
        /c\.toml: a:1: the certificate \/x does not exist \(ENOENT\)/,
      ],
      [
        'proxy-from = ["10.0.0.0/33"]\n',
        /c\.toml:1: proxy-from: 10\.0\.0\.0\/33 is not an address or network, such as/,
      ],
      [
        '[[listener]]\naddress = "a:1"\nproxy-from = ["lb.example"]\n',
        /c\.toml:3: proxy-from: lb\.example is not/,
      ],
      ['[http]\nproxy-from = ["::1/129"]\n', /c\.toml:2: http\.proxy-from: ::1\/129 is not/],
      ['[[listener]]\naddress = "unix:/l"\nproxy-from = ["::1"]\n', /unix:\/l: proxy-from is for TCP/],
      ['listen = "none"\nproxy-from = ["::1"]\n', /c\.toml: --proxy-from is for TCP, and -l is none/],
      ['replicate = "nats://a:1/g"\n', /needs a directory for the log/],
    ] as const) {
      const { status, stderr } = check(text);
      assert.deepEqual([status, stderr.match(fault)?.length], [5, 1], `${text}: ${stderr}`);
      assert.doesNotMatch(stderr, /Use: |--help/);
    }
    assert.equal(check(open, "--", "--http-insecure").status, 0);
  });

  it("can be checked, printed and created with the tool", (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const run = (...args: string[]) =>
      spawnSync(process.execPath, [ourMain(TEST_ENV), "config", ...args], {
        encoding: "utf8",
        env: TEST_ENV,
      });
    const config = join(temporaryFolder(t, "config"), "some.toml");
    const example = run("example");
    assert.equal(example.status, 0);
    writeFileSync(config, example.stdout);
    assert.equal(run("check", config).status, 0);
    writeFileSync(config, "a = 1\nb = 2\nlisten = 5\n");
    const bad = run("check", config);
    assert.equal(bad.status, 5);
    assert.match(
      bad.stderr,
      /:1: unknown key a\b.*\n.*:2: unknown key b.*\n.*:3: listen: 5 is not a string in quotes$/m,
    );
    const printed = run("print", "--", "-p", "7");
    assert.match(printed.stdout, /^port = 7 {2}# -p$/m);
  });
});
