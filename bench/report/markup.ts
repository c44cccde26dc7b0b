// Escapes text for HTML and SVG.
const ENTITIES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

export function escapeText(text: string): string {
  return text.replace(/[&<>"]/g, (character) => ENTITIES[character]!);
}

type Attributes = Record<string, string | number>;

export function element(name: string, attributes: Attributes, content = ""): string {
  const words = Object.entries(attributes).map(
    ([key, value]) => ` ${key}="${escapeText(`${rounded(value)}`)}"`,
  );
  return content === "" ? `<${name}${words.join("")}/>` : `<${name}${words.join("")}>${content}</${name}>`;
}

export function label(x: number, y: number, text: string, attributes: Attributes = {}): string {
  return element("text", { x, y, ...attributes }, escapeText(text));
}

function rounded(value: string | number): string | number {
  return typeof value === "number" ? Math.round(value * 10) / 10 : value;
}
