// Checks before a release, and its notes.

export interface State {
  readonly version: string;
  /** The version in package-lock.json. */
  readonly locked: string;
  /** The version in src/client/package.json. */
  readonly ofClient: string;
  readonly changelog: string;
  /** Tags at this commit. */
  readonly tags: readonly string[];
  /** Uncommitted files. */
  readonly changed: readonly string[];
}

/** Returns the section of a version or [Unreleased], without its heading; undefined if missing. */
function sectionOf(changelog: string, name: string): string | undefined {
  const sections = changelog.split(/^## /m).slice(1);
  const found = sections.find((section) => section.startsWith(`[${name}]`));
  return found?.slice(found.indexOf("\n") + 1).trim();
}

/** Returns the notes of a version: its section of the changelog. */
export function notesOf({ version, changelog }: Pick<State, "version" | "changelog">): string {
  return sectionOf(changelog, version) ?? "";
}

/** Returns the faults, each as a sentence with the next step. */
export function faultsOf(state: State): readonly string[] {
  const { version, locked, ofClient, changelog, tags, changed } = state;
  const faults: string[] = [];
  if (!/^\d+\.\d+\.\d+$/.test(version))
    faults.push(`package.json: "${version}" is not a version such as 1.2.3: npm version sets it`);
  for (const [file, other] of [
    ["package-lock.json", locked],
    ["src/client/package.json", ofClient],
  ])
    if (other !== version)
      faults.push(`${file} is for ${other}, package.json for ${version}: npm version --workspaces sets all`);
  const heading = new RegExp(`^## \\[${version.replaceAll(".", "\\.")}\\] - 20\\d\\d-\\d\\d-\\d\\d$`, "m");
  if (!heading.test(changelog))
    faults.push(`CHANGELOG.md has no line "## [${version}] - YYYY-MM-DD": rename [Unreleased]`);
  else if (notesOf(state) === "") faults.push(`CHANGELOG.md has no entry for ${version}`);
  const unreleased = sectionOf(changelog, "Unreleased");
  if (unreleased === undefined) faults.push('CHANGELOG.md has no line "## [Unreleased]": add it');
  else if (unreleased !== "")
    faults.push(
      `CHANGELOG.md has changes under [Unreleased]: move them to [${version}], or raise the version`,
    );
  if (!tags.includes(`v${version}`))
    faults.push(`This commit has no tag v${version}: git tag -s v${version} -m "runnerbean ${version}"`);
  if (changed.length > 0) faults.push(`Not committed: ${changed.join(", ")}`);
  return faults;
}
