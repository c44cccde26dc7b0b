// Tests of options: flags override variables, which override the file, which overrides defaults;
// faults are reported with their place.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { TomlSource } from "../../../../src/config/read-settings.ts";
import { variableOf } from "../../../../src/config/setting.ts";
import { exampleSettings, printSettings } from "../../../../src/config/write-settings.ts";
import { checkHost } from "../../../../src/http/app/app.ts";
import { HTTP_ALSO_SETTINGS } from "../../../../src/server/options/http-settings.ts";
import { LISTENER_SETTINGS } from "../../../../src/server/options/listener-settings.ts";
import {
  checkFile,
  type Environment,
  type Options,
  parseOptions,
} from "../../../../src/server/options/options.ts";
import { defaultSettings, SETTINGS } from "../../../../src/server/options/settings.ts";
import { temporaryFolder } from "../../../support/machine/temporary-folder.ts";

function fileOf(t: TestContext, text: string): string {
  const path = join(temporaryFolder(t, "config"), "runnerbean.toml");
  writeFileSync(path, text);
  return path;
}

function optionsOf(args: readonly string[], environment: Environment = {}): Options {
  const options = parseOptions(args, "runnerbean", environment);
  assert.ok(!("exitCode" in options), JSON.stringify(options));
  return options;
}

function refusalOf(args: readonly string[], environment: Environment = {}): string {
  const exit = parseOptions(args, "runnerbean", environment);
  assert.ok("exitCode" in exit, "it was not refused");
  assert.equal(exit.exitCode, 5);
  return exit.stderr;
}

describe("options", () => {
  it("are taken from flags, then variables, then the file, then defaults", (t) => {
    const config = fileOf(t, 'port = 1\nshards = 2\nacceptors = 3\nbinlog = "/b"\n');
    const environment = { RUNNERBEAN_PORT: "4", RUNNERBEAN_SHARDS: "5" };
    const options = optionsOf(["-p", "6", "--config", config], environment);
    assert.deepEqual([options.port, options.shards, options.acceptors, options.fsyncMs], ["6", 5, 3, 50]);
    assert.equal(options.config, config);
    assert.deepEqual(
      ["port", "shards", "acceptors", "binlog", "fsync"].map((key) => options.sources.get(key)),
      ["-p", "RUNNERBEAN_SHARDS", `${config}:3`, `${config}:4`, undefined],
    );
  });

  it("read a file only if a flag or variable names it", (t) => {
    const config = fileOf(t, 'max-job-size = "64K"\nfsync = "1s"\nverbose = 2\n');
    const { jobBytesMax, fsyncMs, verbose } = optionsOf([], { RUNNERBEAN_CONFIG: config });
    assert.deepEqual([jobBytesMax, fsyncMs, verbose], [65536, 1000, 2]);
    assert.equal(optionsOf([]).config, undefined);
  });

  it("count -V, and let a later -f override -F", () => {
    assert.equal(optionsOf(["-VV", "-V"]).verbose, 3);
    assert.equal(optionsOf(["-F", "-f", "7"]).fsyncMs, 7);
    assert.equal(optionsOf(["-f", "7", "-F"]).fsyncMs, Number.POSITIVE_INFINITY);
  });

  it("take names of hosts in any case", () => {
    const { httpHosts } = optionsOf(["--http", "--http-hosts", "Queue.Example.org,other"]);
    for (const host of ["queue.example.org", "QUEUE.example.org:8080", "other"])
      assert.doesNotThrow(() => checkHost(host, new Set(httpHosts)));
  });

  it("allow a number of threads only if each has an acceptor", () => {
    assert.equal(optionsOf(["--acceptors", "3", "--threads", "2"]).threads, 2);
    assert.match(
      refusalOf(["--acceptors", "2", "--threads", "3"]),
      /--threads 3: each thread .* --acceptors 3/,
    );
    assert.match(
      refusalOf(["--threads", "1", "--placement", "apart"]),
      /--threads needs --placement together/,
    );
  });

  it("of beanstalkd take units after their flags, as in the file, and say what they take", (t) => {
    const { jobBytesMax, fsyncMs, binlogBytes } = optionsOf(["-z", "1M", "-f", "10s", "-s", "64K"]);
    assert.deepEqual([jobBytesMax, fsyncMs, binlogBytes], [2 ** 20, 10_000, 2 ** 16]);
    assert.equal(optionsOf(["-f", " +7"]).fsyncMs, 7);
    const config = fileOf(t, 'max-job-size = "2G"\n');
    for (const args of [
      ["-z", "2G"],
      ["-z", "2147483648"],
      ["--config", config],
    ]) {
      const capped = optionsOf(args);
      assert.equal(capped.jobBytesMax, 2 ** 30);
      assert.deepEqual(capped.notices, ["maximum job size was set to 1073741824"]);
    }
    assert.match(
      refusalOf(["-z", "10x"]),
      /^runnerbean: invalid size: 10x \(-z takes bytes, as 65536, "64K" or "8G"\)\nrunnerbean --help .*\n$/,
    );
    assert.match(
      refusalOf(["-f", "-1"]),
      /invalid time: -1 \(-f takes milliseconds, or a time .*, at most \d+\)\n/,
    );
    assert.match(
      refusalOf(["tube5"]),
      /^runnerbean: unknown argument: tube5: did you mean tubes\?\n.* --help .*\n$/,
    );
    for (const [args, hint] of [
      [["-p", "25010", "tubes", "--names"], "tubes: a tool comes first: runnerbean tubes -p 25010"],
      [["-p", "25010", "put", "mail"], "put: a tool comes first: runnerbean put -p 25010"],
      [["start"], "start: the server starts without a word, only with options"],
      [["version"], "version: runnerbean --version prints it"],
      [["logs"], "logs: journalctl -u runnerbean shows them under systemd; otherwise they go to stderr"],
      [["stop"], "stop: stop the server with Ctrl-C, kill or systemctl stop runnerbean"],
    ] as const)
      assert.equal(refusalOf([...args]).split("\n")[0], `runnerbean: unknown argument: ${hint}`);
    assert.match(refusalOf(["-f", "5x"]), /^runnerbean: invalid time: 5x \(-f takes milliseconds, or a time/);
    assert.match(
      refusalOf(["--idle-timeout", "3x"]),
      /^runnerbean: --idle-timeout: "3x" is not a time such as/,
    );
    assert.match(refusalOf(["--replicate-lease", "1"]), /invalid time: --replicate-lease 1s \(2s to 60s\)/);
    assert.equal(optionsOf(["--replicate-lease", "2500ms"]).replicateLease, 2.5);
    assert.match(
      refusalOf(["--shard", "2"]),
      /^runnerbean: unknown flag: --shard: did you mean --shards\?\n/,
    );
    assert.doesNotMatch(refusalOf(["nothing"]), /meant|reserve-with-timeout/);
    assert.equal(optionsOf([], { RUNNERBEAN_MAX_JOB_SIZE: "10K" }).jobBytesMax, 10240);
  });

  it("refuse a port that is none, and --salvage without a log", () => {
    assert.match(
      refusalOf(["-p", "abc"]),
      /^runnerbean: unknown port or service: abc \(0 to 65535, .*\n.* --help/,
    );
    assert.match(refusalOf(["-p", "99999"]), /^runnerbean: invalid port: 99999 \(0 to 65535\)\n.* --help/);
    assert.match(refusalOf(["--salvage"]), /^runnerbean: --salvage needs -b: .*\n.* --help/);
    assert.equal(optionsOf(["--salvage", "-b", "x"]).salvage, true);
  });

  it("that are wrong in a file are all reported, each with line and nearest key", (t) => {
    const config = fileOf(t, 'shardz = 2\nsalvage = "no"\n\n[nothing.x]\ny = 1\n[log]\nlevel = 1\n');
    const { faults } = checkFile(config);
    assert.deepEqual(
      faults.map(({ line }) => line),
      [1, 2, 4, 6],
    );
    assert.match(faults[1]!.message, /^salvage: "no" is neither true nor false/);
    assert.match(faults[2]!.message, /^unknown key nothing/);
    assert.match(faults[0]!.message, /did you mean shards/);
    assert.match(refusalOf(["--config", config]), /has 4 faults:\n.*runnerbean\.toml:1: unknown key shardz/);
  });

  it("of a file must have their own type; all others are refused with the line", (t) => {
    const values = {
      text: '"x y"',
      number: "5",
      decimal: "5.5",
      switch: "true",
      date: "1979-05-27",
      list: "[5]",
    };
    const taken: Readonly<Record<string, readonly string[]>> = {
      text: ["text"],
      number: ["number"],
      counter: ["number"],
      decimal: ["number", "decimal"],
      port: ["text", "number"],
      size: ["text", "number", "decimal"],
      milliseconds: ["text", "number", "decimal"],
      seconds: ["text", "number", "decimal"],
      switch: ["switch"],
      list: [],
      tables: [],
    };
    type Row = { readonly key: string; readonly kind: string };
    for (const [type, value] of Object.entries({ ...values, table: "{ a = 1 }" })) {
      const refuses = ({ kind }: Row): boolean =>
        !taken[kind]!.includes(type) && (kind !== "tables" || type !== "table");
      for (const [head, all] of [
        ["# each in a line", SETTINGS],
        ["[[listener]]", LISTENER_SETTINGS],
        ["[[http.also]]", HTTP_ALSO_SETTINGS],
      ] as const satisfies readonly (readonly [string, readonly Row[]])[]) {
        const rows = all.filter(refuses);
        const text = `${head}\n${rows.map(({ key }) => `${key} = ${value}\n`).join("")}`;
        const faults = checkFile(fileOf(t, text)).faults.filter(({ line }) => line > 1);
        const told = faults.map(
          ({ line, message }) => `${line} ${/^([\w.-]+): .* is n(?:ot|either) /.exec(message)?.[1]}`,
        );
        assert.deepEqual(
          told,
          rows.map(({ key }, index) => `${index + 2} ${key}`),
          `${type}: ${JSON.stringify(faults)}`,
        );
      }
    }
  });

  it("of a file that are a section need keys", (t) => {
    const { faults } = checkFile(fileOf(t, 'http = 5\n[[listener]]\naddress = "a:1"\ntls = "x"\n'));
    assert.deepEqual(
      faults.map(({ line, message }) => `${line} ${message}`),
      ["1 http: 5 is not a table: write http.listen = …", '4 tls: "x" is not a table: write tls.cert = …'],
    );
  });

  it("of a file accept a port with or without quotes", (t) => {
    const config = fileOf(t, 'port = 7\n[http]\nlisten = 8\n[[http.also]]\nlisten = "9"\n');
    const { port, http, httpAlso } = optionsOf(["--config", config]);
    assert.deepEqual(
      [port, http, httpAlso[0]?.address],
      ["7", { host: "127.0.0.1", port: 8 }, { host: "127.0.0.1", port: 9 }],
    );
  });

  it("of a missing or invalid file are refused", (t) => {
    assert.match(
      refusalOf(["--config", "/nonexistent"]),
      /: the configuration \/nonexistent does not exist \(ENOENT\)\n$/,
    );
    assert.match(refusalOf(["--config", fileOf(t, "port = 1\nport = 2\n")]), /runnerbean\.toml:2: /);
  });

  it("by variables: a bad one is refused, an unknown one reported, those of Kubernetes ignored", () => {
    assert.match(refusalOf([], { RUNNERBEAN_SHARDS: "0" }), /RUNNERBEAN_SHARDS: /);
    assert.match(refusalOf([], { RUNNERBEAN_SALVAGE: "perhaps" }), /RUNNERBEAN_SALVAGE: /);
    const { notices, port } = optionsOf([], {
      RUNNERBEAN_SHARDZ: "1",
      RUNNERBEAN_PORT: "tcp://10.0.0.1:11300",
      RUNNERBEAN_PORT_11300_TCP_ADDR: "10.0.0.1",
      RUNNERBEAN_SERVICE_HOST: "10.0.0.1",
      RUNNERBEAN_URL: "tls://x",
      PATH: "/bin",
    });
    assert.equal(port, "11300");
    assert.equal(notices.length, 2, notices.join("\n"));
    assert.match(notices.join("\n"), /RUNNERBEAN_SHARDZ: did you mean RUNNERBEAN_SHARDS/);
  });

  it("are printed with their source, as an equivalent file", (t) => {
    const options = optionsOf(["-p", "7", "-F"], { RUNNERBEAN_COMPAT: "1.12" });
    const text = printSettings(SETTINGS, options, options.sources);
    assert.match(text, /^port = 7 {2}# -p$/m);
    assert.match(text, /^compat = "1.12" {2}# RUNNERBEAN_COMPAT$/m);
    const again = optionsOf(["--config", fileOf(t, text)]);
    for (const row of SETTINGS) assert.deepEqual(row.show(again), row.show(options), row.key);
  });

  it("are all in the example, which changes nothing and is valid when uncommented", (t) => {
    const example = exampleSettings(SETTINGS, defaultSettings());
    const source = TomlSource.read(example);
    assert.ok(source instanceof TomlSource);
    // The headings of sections stand as they are.
    for (const section of Object.values(source.table)) assert.deepEqual({ ...(section as object) }, {});
    const uncommented = example
      .replaceAll(/^# (?=\[|[\w.-]+ = )/gm, "")
      // The one file that has to be there to be right.
      .replace("/etc/runnerbean/tubes", fileOf(t, "mails max-jobs=5\n"));
    const { faults } = checkFile(fileOf(t, uncommented));
    assert.deepEqual(faults, []);
    for (const row of SETTINGS) assert.ok(uncommented.includes(row.key.split(".").at(-1)!), row.key);
  });

  it("each have their own variable", () => {
    const variables = SETTINGS.map((row) => variableOf(row.key));
    assert.equal(new Set(variables).size, variables.length);
  });
});
