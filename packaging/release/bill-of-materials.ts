// The software bill of materials for the artefacts, in npm's CycloneDX format.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import type { BundledPackage } from "../licences/bundled-packages.ts";
import { NODE_VERSION } from "../node.ts";
import { sourceDate } from "../source-date.ts";

interface Component {
  readonly "bom-ref": string;
  readonly name: string;
  readonly version: string;
}

interface Bom {
  readonly bomFormat: string;
  readonly metadata: { readonly component: Component };
  readonly components: readonly Component[];
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn: readonly string[] }[];
}

const NODE: Component = {
  "bom-ref": `node@${NODE_VERSION}`,
  name: "node",
  version: NODE_VERSION,
  ...{ type: "application", scope: "required", purl: `pkg:generic/node@${NODE_VERSION}` },
  ...{ licenses: [{ license: { id: "MIT" } }] },
};

const idOf = ({ name, version }: { name: string; version: string }): string => `${name}@${version}`;

/** Returns the bill of the checkout in `root`: the packages that are in the bundle, and Node. */
export function billOfMaterials(root: string, packages: readonly BundledPackage[]): Bom {
  // npm's list has all packages of the checkout, including those for its tests.
  const npm = ["sbom", "--sbom-format=cyclonedx", "--sbom-type=application", "--package-lock-only"];
  const said = execFileSync("npm", npm, { cwd: root, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  const all = JSON.parse(said) as Bom;
  const wanted = new Set(packages.map(idOf));
  // An older npm lists each copy of a package that it has installed several times.
  const copies = all.components.filter((component) => wanted.has(idOf(component)));
  const found = [...new Map(copies.map((component) => [idOf(component), component])).values()];
  const missing = wanted.difference(new Set(found.map(idOf)));
  if (missing.size > 0) throw new Error(`npm sbom does not know ${[...missing].join(", ")}: run npm ci`);
  // npm lists them as needed only for development.
  const components = [...found.map((each) => ({ ...each, scope: "required", properties: [] })), NODE];
  const { component } = all.metadata;
  const refs = new Set(components.map((each) => each["bom-ref"]));
  const dependencies = all.dependencies
    .filter(({ ref }) => refs.has(ref))
    .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((each) => refs.has(each)) }));
  return {
    ...all,
    ...{ serialNumber: `urn:uuid:${uuidOf(JSON.stringify(components))}` },
    metadata: {
      ...all.metadata,
      component: { ...component, name: "runnerbean" },
      ...{ timestamp: new Date(sourceDate() * 1000).toISOString() },
    },
    components,
    dependencies: [{ ref: component["bom-ref"], dependsOn: [...refs] }, ...dependencies],
  };
}

/** Returns a UUID (version 8) that is the same for the same text. */
function uuidOf(text: string): string {
  const hex = createHash("sha256").update(text).digest("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
