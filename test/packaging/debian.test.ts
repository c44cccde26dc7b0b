// Tests of the package for Debian: what is in it, and its life in a minimal Debian.

import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import manifest from "../../package.json" with { type: "json" };
import { type DebianPackage, DOCUMENTS, makeDebianPackage } from "../../packaging/debian/debian.ts";
import { makeExecutable } from "../../packaging/executable/executable.ts";
import { HERE } from "../../packaging/node.ts";
import { allCommands } from "../../src/server/tools/subcommands.ts";
import { LINK, localPath, withoutCode } from "../support/document-links.ts";
import { freePort } from "../support/machine/free-port.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { bundleServer } from "../support/server/server-bundle.ts";
import { ourMain, TEST_ENV } from "../support/server/server-process.ts";

const LIFE = fileURLToPath(new URL("debian-root.sh", import.meta.url));
const UNDER_SYSTEMD = fileURLToPath(new URL("debian-systemd.sh", import.meta.url));
const FILES = `
etc/runnerbean/runnerbean.toml
usr/bin/runnerbean
usr/lib/systemd/system/runnerbean.service
usr/lib/systemd/system/runnerbean.socket
usr/share/bash-completion/completions/runnerbean
usr/share/doc/runnerbean/changelog.gz
usr/share/doc/runnerbean/copyright
usr/share/doc/runnerbean/licences-node.txt.gz
usr/share/doc/runnerbean/licences.txt.gz
usr/share/fish/vendor_completions.d/runnerbean.fish
usr/share/man/man5/runnerbean.toml.5.gz
usr/share/zsh/vendor-completions/_runnerbean
`;
const ROOT = fileURLToPath(new URL("../..", import.meta.url));

describe("the package for Debian", () => {
  /** What packages are made of. What is in an executable doesn't matter to a package. */
  async function ingredients(executable: string): Promise<Omit<DebianPackage, "version" | "output">> {
    const bundle = dirname(process.env["SERVER_BUNDLE"] ?? (await bundleServer()));
    return { executable, bundle, architecture: HERE, compression: "none" };
  }

  it("has all that belongs to a package, and is the same, byte for byte, when it is made again", async (t) => {
    if (!canRun(t, NEEDS.dpkgDeb)) return;
    const folder = temporaryFolder(t, "deb");
    const parts = await ingredients("/bin/true");
    const made = await Promise.all(
      ["one", "two"].map((name) =>
        makeDebianPackage({ ...parts, version: manifest.version, output: join(folder, name) }),
      ),
    );
    const [one, two] = made.map((file) => readFileSync(file));
    assert.ok(one!.equals(two!));
    const lines = execFileSync("dpkg-deb", ["-c", made[0]!], { encoding: "utf8" }).trim().split("\n");
    const names = lines.map((line) => /\.\/(.*)$/.exec(line)![1]!).filter((name) => !/^$|\/$/.test(name));
    const tools = (await allCommands()).commands.map((tool) => tool.name());
    const pages = ["runnerbean", ...tools.map((tool) => `runnerbean-${tool}`)];
    const documents = globSync(DOCUMENTS, { cwd: ROOT });
    for (const file of [
      "README.md",
      "docs/replace-beanstalkd.md",
      "docs/proof/groups.md",
      "deploy/keda.yaml",
    ])
      assert.ok(documents.includes(file), file);
    const expected = [
      ...FILES.trim().split("\n"),
      ...pages.map((name) => `usr/share/man/man1/${name}.1.gz`),
      ...documents.map((file) => `usr/share/doc/runnerbean/${file}`),
    ];
    assert.deepEqual(names.sort(), expected.sort());
    for (const line of lines) assert.match(line, /^(?:drwxr-xr-x|-rwxr-xr-x|-rw-r--r--) root\/root /);
    execFileSync("dpkg-deb", ["-R", made[0]!, join(folder, "raw")]);
    const read = (path: string): string => readFileSync(join(folder, "raw", path), "utf8");
    assert.equal(read("DEBIAN/conffiles"), "/etc/runnerbean/runnerbean.toml\n");
    assert.match(read("DEBIAN/control"), /^Depends: .*libatomic1.*libc6.*libstdc\+\+6/m);
    assert.match(
      read("usr/lib/systemd/system/runnerbean.service"),
      /^ExecStart=\/usr\/bin\/runnerbean --config/m,
    );
    for (const path of documents.filter((file) => file.endsWith(".md"))) {
      const text = read(`usr/share/doc/runnerbean/${path}`);
      for (const [, target] of withoutCode(text).matchAll(LINK)) {
        const to = localPath(path, target!);
        if (to === undefined) continue;
        const isPacked = documents.some(
          (file) => file === to || file.startsWith(`${to.replace(/\/$/, "")}/`),
        );
        assert.equal(/^https:/.test(target!), !isPacked, `${path}: ${target}`);
        assert.ok(existsSync(join(ROOT, to)), `${path}: ${target}`);
      }
    }
    const page = (path: string): string =>
      gunzipSync(readFileSync(join(folder, "raw/usr/share/man", path))).toString();
    assert.match(page("man1/runnerbean.1.gz"), /^\.B \\-p, \\-\\-port <port>\nTCP port/m);
    const bundle = join(parts.bundle, "runnerbean.cjs");
    const help = execFileSync(process.execPath, [bundle, "--help"], { encoding: "utf8" });
    const flags = [...help.matchAll(/^ (?:-\w, | {4})(--[\w-]+)/gm)].map(([, flag]) => flag!);
    assert.ok(flags.length > 30);
    for (const flag of flags)
      assert.match(page("man1/runnerbean.1.gz"), new RegExp(`^\\.B .*${flag.replaceAll("-", "\\\\-")}`, "m"));
    assert.match(page("man1/runnerbean-binlog.1.gz"), /^\.B runnerbean binlog inspect /m);
    assert.match(page("man1/runnerbean-put.1.gz"), /^\.B \\-\\-unique <key>/m);
    const longest = Math.max(...tools.map((tool) => page(`man1/runnerbean-${tool}.1.gz`).split("\n").length));
    assert.ok(longest < 250, `${longest} lines`);
    assert.match(page("man1/runnerbean-put.1.gz"), /with \\-\\-unique: .*"refuse", "keep", "replace"/);
    assert.match(page("man1/runnerbean-put.1.gz"), /^runnerbean\\-put \\- store a job$/m);
    assert.doesNotMatch(page("man1/runnerbean-completion.1.gz"), /^\.RS\n\.RE/m);
    // The options of all tools stand in one page.
    assert.doesNotMatch(page("man1/runnerbean-put.1.gz"), /^\.B \\-\\-token/m);
    assert.match(page("man1/runnerbean.1.gz"), /^\.B \\-\\-token <token>/m);
    const unit = read("usr/lib/systemd/system/runnerbean.service");
    const leadsTo = /^Documentation=.*file:\/\/\/(\S+)/m.exec(unit)?.[1] ?? assert.fail(unit);
    assert.ok(names.includes(leadsTo), leadsTo);
    assert.match(page("man5/runnerbean.toml.5.gz"), /^# max\\-memory = /m);
    for (const script of ["postinst", "prerm", "postrm"])
      assert.equal(spawnSync("sh", ["-n", join(folder, "raw/DEBIAN", script)]).status, 0, script);
  });

  it("looks at the port of the configuration for another server", async (t) => {
    const other = createServer().listen(0, "127.0.0.1");
    await once(other, "listening");
    t.after(() => other.close());
    const { port } = other.address() as { port: number };
    const script = readFileSync(join(ROOT, "packaging/debian/scripts/postinst"), "utf8");
    const look = /^holder_of_port\(\) \{\n.*?^\}\n/ms.exec(script)?.[0] ?? assert.fail(script);
    const file = join(temporaryFolder(t, "deb"), "runnerbean.toml");
    const holderWith = (settings: string): string => {
      writeFileSync(file, settings);
      const ours = `runnerbean() { "$0" "${ourMain(TEST_ENV)}" "$@"; }`;
      const lines = `${ours}\n${look.replace("/etc/runnerbean/runnerbean.toml", file)}holder_of_port`;
      return execFileSync("sh", ["-euc", lines, process.execPath], { encoding: "utf8", env: TEST_ENV });
    };
    assert.match(
      holderWith(`port = ${port}\n`),
      new RegExp(`^(?:another program|beanstalkd) uses port ${port}\n$`),
    );
    assert.equal(holderWith(`port = ${await freePort()}\n`), "");
    assert.equal(
      holderWith(`port = ${port}\nlisten = "unix:/run/runnerbean/socket"\n[http]\nlisten = "11380"\n`),
      "",
    );
  });

  function canMakeRoots(t: TestContext): boolean {
    if (process.env["PACKAGING"] !== "whole") {
      t.skip("makes a Debian and an executable: npm run packaging");
      return false;
    }
    if (process.getuid!() !== 0) {
      t.skip("only root can make a Debian with debootstrap");
      return false;
    }
    return canRun(t, NEEDS.dpkgDeb, NEEDS.debootstrap);
  }

  it("installs, serves, upgrades, takes beanstalkd's place under systemd, and leaves nothing behind", async (t) => {
    if (!canMakeRoots(t)) return;
    const folder = temporaryFolder(t, "deb");
    const bundle = join(folder, "bundle");
    cpSync((await ingredients("")).bundle, bundle, { recursive: true });
    mkdirSync(join(folder, "out"));
    const { EXECUTABLE: executable = join(folder, "runnerbean") } = process.env;
    if (executable === join(folder, "runnerbean")) makeExecutable(bundle, executable);
    const parts = await ingredients(executable);
    const older = manifest.version.replace(/\d+$/, (patch) => `${patch}~before`);
    const versions = [older, manifest.version];
    const [old, next] = await Promise.all(
      versions.map((version) => makeDebianPackage({ ...parts, version, output: join(folder, "out") })),
    );
    const { status, stdout, stderr } = spawnSync(LIFE, [old!, next!], { encoding: "utf8" });
    assert.equal(status, 0, stdout + stderr);
    assert.match(stdout, /^deb: passed$/m);
    t.diagnostic(stdout);
    if (!readFileSync("/proc/mounts", "utf8").includes(" cgroup2 ")) {
      t.diagnostic("without cgroup2, systemd is not played");
      return;
    }
    const played = spawnSync(UNDER_SYSTEMD, [next!], { encoding: "utf8" });
    assert.equal(played.status, 0, played.stdout + played.stderr);
    assert.match(played.stdout, /^systemd: passed$/m);
    t.diagnostic(played.stdout);
  });
});
