// The folder from which a container engine builds the image, with deploy/Dockerfile.

import { execFileSync } from "node:child_process";
import { chmodSync, cpSync, existsSync, globSync, mkdirSync, realpathSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { DEBIAN } from "../debian/debian.ts";
import { type Architecture, HERE, nodePackage } from "../node.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** Shared libraries that the executable needs and a base with the C library lacks. */
const LIBRARIES = ["libatomic.so.1", "libgcc_s.so.1", "libstdc++.so.6"];

/** Location of these libraries in Debian's packages for cross-compilation. */
const FOREIGN = "/usr/aarch64-linux-gnu/lib";

/** Returns the files that Node loads on this machine, or those for another architecture. */
function libraries(architecture: Architecture): readonly string[] {
  if (architecture !== HERE) {
    const files = LIBRARIES.map((name) => join(FOREIGN, name));
    if (files.every((file) => existsSync(file))) return files;
    throw new Error(
      `${files.join(", ")}: some are missing: apt-get install libstdc++6-arm64-cross libatomic1-arm64-cross`,
    );
  }
  const env = { LD_TRACE_LOADED_OBJECTS: "1" };
  const loaded = execFileSync(join(nodePackage(HERE), "bin/node"), { env, encoding: "utf8" });
  const paths = new Map([...loaded.matchAll(/(\S+) => (\/\S+)/g)].map(([, name, path]) => [name!, path!]));
  return LIBRARIES.map((name) => {
    const path = paths.get(name);
    if (path === undefined) throw new Error(`Node loads no ${name}, but this:\n${loaded}`);
    return path;
  });
}

interface Context {
  /** The executables by their architectures. */
  readonly executables: Partial<Record<Architecture, string>>;
  /** The folder with the bundle. */
  readonly bundle: string;
}

/** Fills the folder. */
export function makeContext(folder: string, { executables, bundle }: Context): void {
  rmSync(folder, { recursive: true, force: true });
  for (const path of ["data", "licences"]) mkdirSync(join(folder, path), { recursive: true });
  cpSync(join(ROOT, "deploy/Dockerfile"), join(folder, "Dockerfile"));
  cpSync(join(ROOT, "LICENSE"), join(folder, "licences/LICENSE"));
  cpSync(join(bundle, "licences.txt"), join(folder, "licences/licences.txt"));
  for (const [name, executable] of Object.entries(executables)) {
    const architecture = name as Architecture;
    const place = join(folder, DEBIAN[architecture]);
    mkdirSync(join(place, "lib"), { recursive: true });
    cpSync(executable, join(place, "runnerbean"));
    for (const file of libraries(architecture))
      cpSync(realpathSync(file), join(place, "lib", basename(file)));
    cpSync(join(nodePackage(architecture), "LICENSE"), join(folder, "licences/licences-node.txt"));
  }
  // Independent of the umask of the build.
  for (const path of ["data", ...globSync("{licences,amd64,arm64}{,/**}", { cwd: folder })])
    chmodSync(join(folder, path), /licences\/|\.so\./.test(path) ? 0o644 : 0o755);
}
