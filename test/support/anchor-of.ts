// Returns the anchor that GitHub gives a heading, for links such as page.md#a-heading.

export const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replace(/[^\w\- ]/g, "")
    .replaceAll(" ", "-");
