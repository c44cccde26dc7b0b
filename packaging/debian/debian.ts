// Builds the package for Debian and its derivatives with dpkg-deb, without root.

import { execFileSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  globSync,
  lutimesSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import manifest from "../../package.json" with { type: "json" };
import { allCommands } from "../../src/server/tools/subcommands.ts";
import { type Architecture, nodePackage } from "../node.ts";
import { sourceDate } from "../source-date.ts";
import { manPages } from "./man-pages.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const SCRIPTS = fileURLToPath(new URL("scripts", import.meta.url));

/** Architectures, named as in packaging/executable. */
const QUIET = ["--disable-warning=ExperimentalWarning"];

/** Debian's names of the architectures. */
export const DEBIAN: Readonly<Record<Architecture, string>> = { x64: "amd64", arm64: "arm64" };

/** Libraries that Node 26 needs, with the versions of the newest symbols that it uses. */
const DEPENDS = "adduser, libatomic1, libc6 (>= 2.28), libgcc-s1 | libgcc1, libstdc++6 (>= 7)";

/** In the folders of the sources, so that links between them work. */
export const DOCUMENTS: readonly string[] = [
  "README.md",
  "docs/**/*.{md,png}",
  "src/protocol/README.md",
  "deploy/**/*.*",
];
const REPOSITORY = `${manifest.homepage.replace(/#.*/, "")}/blob/main/`;

export interface DebianPackage {
  /** The executable for this architecture, and the folder with the bundle, which runs here. */
  readonly executable: string;
  readonly bundle: string;
  readonly architecture: Architecture;
  readonly version: string;
  /** Folder for the package. */
  readonly output: string;
  readonly compression?: "xz" | "none";
}

/** Builds the package and returns its path. The same executable gives the same bytes. */
export async function makeDebianPackage(made: DebianPackage): Promise<string> {
  const { architecture, version, output, compression = "xz" } = made;
  const folder = mkdtempSync(join(tmpdir(), "runnerbean-deb-"));
  try {
    await fill(folder, made);
    mkdirSync(join(folder, "DEBIAN"), { mode: 0o755 });
    for (const name of ["postinst", "prerm", "postrm"])
      put(folder, `DEBIAN/${name}`, readFileSync(join(SCRIPTS, name)), 0o755);
    put(folder, "DEBIAN/conffiles", "/etc/runnerbean/runnerbean.toml\n");
    put(folder, "DEBIAN/control", control(folder, version, architecture));
    settle(folder);
    const file = join(output, `runnerbean_${version}_${DEBIAN[architecture]}.deb`);
    mkdirSync(output, { recursive: true });
    const dpkg = ["--root-owner-group", `-Z${compression}`, "--build", folder, file];
    const env = { ...process.env, SOURCE_DATE_EPOCH: `${sourceDate()}` };
    execFileSync("dpkg-deb", dpkg, { env, stdio: ["ignore", "ignore", "inherit"] });
    return file;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function put(folder: string, path: string, contents: string | Uint8Array, mode = 0o644): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), contents, { mode });
}

async function fill(
  folder: string,
  { executable, bundle, architecture, version }: DebianPackage,
): Promise<void> {
  const say = (...args: string[]): string =>
    execFileSync(process.execPath, [...QUIET, join(bundle, "runnerbean.cjs"), ...args], { encoding: "utf8" });
  mkdirSync(join(folder, "usr/bin"), { recursive: true });
  cpSync(executable, join(folder, "usr/bin/runnerbean"));
  put(folder, "etc/runnerbean/runnerbean.toml", readFileSync(join(ROOT, "deploy/runnerbean.toml")));
  for (const unit of ["runnerbean.service", "runnerbean.socket"])
    put(folder, `usr/lib/systemd/system/${unit}`, unitOf(unit));
  const described = {
    version,
    help: say("--help"),
    tools: await allCommands(),
    example: say("config", "example"),
  };
  for (const [name, page] of manPages(described)) put(folder, `usr/share/man/${name}.gz`, compressed(page));
  put(folder, "usr/share/bash-completion/completions/runnerbean", say("completion", "bash"));
  put(folder, "usr/share/zsh/vendor-completions/_runnerbean", say("completion", "zsh"));
  put(folder, "usr/share/fish/vendor_completions.d/runnerbean.fish", say("completion", "fish"));
  const documents = "usr/share/doc/runnerbean";
  put(folder, `${documents}/changelog.gz`, compressed(readFileSync(join(ROOT, "CHANGELOG.md"), "utf8")));
  put(folder, `${documents}/copyright`, copyright());
  put(folder, `${documents}/licences.txt.gz`, compressed(readFileSync(join(bundle, "licences.txt"), "utf8")));
  const packed = globSync(DOCUMENTS, { cwd: ROOT });
  for (const file of packed) {
    const contents = readFileSync(join(ROOT, file));
    put(
      folder,
      `${documents}/${file}`,
      file.endsWith(".md") ? linked(file, `${contents}`, packed) : contents,
    );
  }
  const ofNode = readFileSync(join(nodePackage(architecture), "LICENSE"), "utf8");
  put(folder, `${documents}/licences-node.txt.gz`, compressed(ofNode));
}

/** Leads the links of a page to packed files if they are packed, otherwise to the repository. */
const linked = (page: string, text: string, packed: readonly string[]): string =>
  text.replace(/(\]\()([^)#\s]+)/g, (link: string, begin: string, to: string) => {
    const isOurs = to.startsWith(REPOSITORY);
    if (!isOurs && /^[a-z]+:/.test(to)) return link;
    const file = isOurs ? to.slice(REPOSITORY.length) : join(dirname(page), to);
    const isPacked = packed.some((each) => each === file || each.startsWith(`${file.replace(/\/$/, "")}/`));
    return begin + (isPacked ? relative(dirname(page), file) : REPOSITORY + file);
  });

const compressed = (text: string): Buffer => gzipSync(text, { level: 9 });

const copyright = (): string =>
  `${readFileSync(join(ROOT, "LICENSE"), "utf8")}
The program contains Node.js, whose licences are in licences-node.txt.gz,
and packages whose licences are in licences.txt.gz.
`;

/** Returns the unit of deploy/systemd, adapted to a program without launcher and cache. */
function unitOf(name: string): string {
  return readFileSync(join(ROOT, "deploy/systemd", name), "utf8")
    .replace(/^# \/etc\/systemd\/system\/.*\n/, "")
    .replace(/^(?:Environment=NODE_COMPILE_CACHE|CacheDirectory)=.*\n/gm, "")
    .replace(
      /^Documentation=.*$/m,
      "Documentation=man:runnerbean(1) file:///usr/share/doc/runnerbean/docs/README.md",
    )
    .replaceAll("/usr/local/bin/", "/usr/bin/");
}

function control(folder: string, version: string, architecture: Architecture): string {
  const files = globSync("**/*", { cwd: folder });
  const kibibytes = files.reduce((sum, file) => sum + Math.ceil(statSync(join(folder, file)).size / 1024), 0);
  return `Package: runnerbean
Version: ${version}
Architecture: ${DEBIAN[architecture]}
Maintainer: runnerbean <runnerbean@users.noreply.github.com>
Installed-Size: ${kibibytes}
Depends: ${DEPENDS}
Section: net
Priority: optional
Homepage: https://github.com/runnerbean/runnerbean
Description: work queue that speaks the beanstalkd protocol
 A server for jobs in tubes, with priorities, delays and times to run. It uses
 all cores, and with a log it loses nothing that it acknowledged. Clients of
 beanstalkd work with it. It adds unique jobs, retries, limits, an HTTP API
 and a dashboard.
`;
}

/** Gives all files the modes and times that they have in every build. */
function settle(folder: string): void {
  const date = sourceDate();
  for (const name of [...globSync("**/*", { cwd: folder }), "."]) {
    const path = join(folder, name);
    const isProgram = name.startsWith("usr/bin/") || /^DEBIAN\/[a-z]+(?:inst|rm)$/.test(name);
    chmodSync(path, statSync(path).isDirectory() || isProgram ? 0o755 : 0o644);
    lutimesSync(path, date, date);
  }
}
