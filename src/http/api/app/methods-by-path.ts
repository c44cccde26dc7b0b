// The methods that each path supports, for the response to an unsupported one. Matched only then.

export class MethodsByPath {
  /** Methods by the path's template. */
  readonly #methods = new Map<string, { readonly path: RegExp; readonly methods: Set<string> }>();

  add(methods: readonly string[], url: string): void {
    let known = this.#methods.get(url);
    if (known === undefined) {
      const parts = url.split("/").map((part) => (part.startsWith(":") ? "[^/]+" : RegExp.escape(part)));
      known = { path: new RegExp(`^${parts.join("/")}$`), methods: new Set() };
      this.#methods.set(url, known);
    }
    for (const method of methods) known.methods.add(method);
  }

  /** Returns the methods of a path in alphabetical order; empty if the path doesn't exist. */
  of(path: string): string[] {
    const found = [...this.#methods.values()].filter((each) => each.path.test(path));
    return [...new Set(found.flatMap(({ methods }) => [...methods]))].sort();
  }
}
