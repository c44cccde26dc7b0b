// All artefacts of a release, built into one folder.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { bundledPackages } from "../bundle/bundle.ts";
import { makeDebianPackage } from "../debian/debian.ts";
import { makeExecutable } from "../executable/executable.ts";
import { makeContext } from "../image/context.ts";
import { type Architecture, HERE } from "../node.ts";
import { packClient, packNode, packServer } from "../npm/packages.ts";
import { sourceDate } from "../source-date.ts";
import { billOfMaterials } from "./bill-of-materials.ts";

export interface Artefact {
  readonly file: string;
  readonly bytes: number;
  readonly seconds: number;
}

interface Release {
  readonly root: string;
  readonly version: string;
  readonly notes: string;
  /** The folder for the artefacts. It is emptied. */
  readonly output: string;
  readonly onBuilt: (artefact: Artefact) => void;
}

/** Builds all for this machine's architecture: npm packages, executable, Debian package, image. */
export async function buildArtefacts({
  root,
  version,
  notes,
  output,
  onBuilt,
}: Release): Promise<Artefact[]> {
  const built = join(root, "dist");
  const artefacts: Artefact[] = [];
  const add = async (make: () => string | Promise<string>): Promise<void> => {
    const startedAt = performance.now();
    const file = await make();
    const artefact = { file, bytes: statSync(file).size, seconds: (performance.now() - startedAt) / 1000 };
    artefacts.push(artefact);
    onBuilt(artefact);
  };
  const architecture: Architecture = HERE;
  const executable = join(output, `runnerbean-linux-${architecture}`);
  execFileSync("npm", ["run", "--silent", "build"], { cwd: root, stdio: ["ignore", "ignore", "inherit"] });
  // The build empties its own folder, which may contain this one.
  rmSync(output, { recursive: true, force: true });
  mkdirSync(output, { recursive: true });
  await add(() => {
    makeExecutable(built, executable);
    return executable;
  });
  await add(() => packServer(built, output));
  await add(() => packClient(built, output));
  await add(() => packNode(architecture, output));
  await add(() => makeDebianPackage({ executable, bundle: built, architecture, version, output }));
  await add(() => {
    const context = join(output, "image");
    makeContext(context, { executables: { [architecture]: executable }, bundle: built });
    const file = join(output, `runnerbean-image-${architecture}.tar.gz`);
    pack(context, file);
    rmSync(context, { recursive: true });
    return file;
  });
  const bill = billOfMaterials(root, await bundledPackages());
  writeFileSync(join(output, "sbom.cdx.json"), `${JSON.stringify(bill, undefined, 2)}\n`);
  cpSync(join(built, "licences.txt"), join(output, "licences.txt"));
  writeFileSync(join(output, "notes.txt"), `${notes}\n`);
  const files = [...artefacts.map(({ file }) => basename(file)), "sbom.cdx.json", "licences.txt"].sort();
  const sums = files.map((name) => `${sha256(join(output, name))}  ${name}\n`);
  writeFileSync(join(output, "SHA256SUMS"), sums.join(""));
  return artefacts;
}

const sha256 = (path: string): string => createHash("sha256").update(readFileSync(path)).digest("hex");

/** Packs a folder; the same files give the same bytes. */
function pack(folder: string, file: string): void {
  const same = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", `--mtime=@${sourceDate()}`];
  execFileSync("tar", [...same, "-I", "gzip -n -6", "-cf", file, "-C", folder, "."]);
}
