// The software bill of materials: CycloneDX, as npm writes it, of what is in the artefacts.

import { execFileSync } from "node:child_process";
import { NODE_VERSION } from "../node.ts";
import type { BundledPackage } from "../licences/bundled-packages.ts";

interface Component {
  readonly "bom-ref": string;
  readonly name: string;
  readonly group?: string;
  readonly version: string;
}

export interface Bom {
  readonly bomFormat: string;
  readonly specVersion: string;
  readonly metadata: { readonly component: Component };
  readonly components: readonly Component[];
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn: readonly string[] }[];
}

const NODE: Component & object = {
  "bom-ref": `node@${NODE_VERSION}`,
  type: "application",
  name: "node",
  version: NODE_VERSION,
  purl: `pkg:generic/node@${NODE_VERSION}`,
  licenses: [{ license: { id: "MIT" } }],
} as Component;

/** Returns the bill of the checkout in `root`, with the packages that are in the bundle, and Node. */
export function billOfMaterials(root: string, packages: readonly BundledPackage[]): Bom {
  // Of all packages of the checkout, those for its tests among them.
  const npm = ["sbom", "--sbom-format=cyclonedx", "--sbom-type=application"];
  const all = JSON.parse(execFileSync("npm", npm, { cwd: root, encoding: "utf8", maxBuffer: 1 << 26 })) as Bom;
  const wanted = new Set(packages.map(({ name, version }) => `${name}@${version}`));
  const kept = new Map<string, Component>();
  for (const component of all.components) {
    const { name, group, version } = component;
    const id = `${group === undefined ? name : `${group}/${name}`.replace(`${group}/${group}/`, `${group}/`)}@${version}`;
    if (wanted.has(id)) kept.set(id, component);
  }
  const missing = [...wanted].filter((id) => !kept.has(id));
  if (missing.length > 0) throw new Error(`npm sbom does not know ${missing.join(", ")}: run npm ci`);
  const components = [...kept.values(), NODE];
  const refs = new Set(components.map((component) => component["bom-ref"]));
  const root_ = all.metadata.component["bom-ref"];
  const dependencies = all.dependencies
    .filter(({ ref }) => refs.has(ref) && ref !== root_)
    .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((each) => refs.has(each)) }));
  return { ...all, components, dependencies: [{ ref: root_, dependsOn: [...refs] }, ...dependencies] };
}
