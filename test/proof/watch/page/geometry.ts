// Where things stand in the picture: five rows, from the clients down to the disk, as wide as the
// page.

export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

const GAP = 10;
const ROW_TOPS = [20, 128, 226, 342, 440] as const;
const ROW_HEIGHTS = [56, 40, 58, 44, 66] as const;
/** Boxes are no wider than this, and stand in the middle. */
const WIDTHS_MAX = [210, 300, 240, 480, 180] as const;
export const ROW_NAMES = ["clients", "acceptors", "shards", "log", "disk"] as const;
export const HEIGHT = 516;

type Row = 0 | 1 | 2 | 3 | 4;
export const ROWS: readonly Row[] = [0, 1, 2, 3, 4];

/** The box of element `index` of `count` in a row of a picture that is `width` wide. */
export function boxAt(row: Row, index: number, count: number, width: number): Box {
  const room = (width - GAP * (count - 1)) / count;
  const boxWidth = Math.min(WIDTHS_MAX[row], room);
  const all = count * boxWidth + GAP * (count - 1);
  const x = (width - all) / 2 + index * (boxWidth + GAP);
  return { x, y: ROW_TOPS[row], width: boxWidth, height: ROW_HEIGHTS[row] };
}

/** Top of a row's name, above its boxes. */
export const nameTop = (row: Row): number => ROW_TOPS[row] - 7;

export interface Wire {
  readonly x1: number;
  readonly y1: number;
  readonly x2: number;
  readonly y2: number;
}

/** From the foot of one box to the head of another; `shift` keeps two directions apart. */
export const wireBetween = (from: Box, to: Box, shift = 0): Wire => ({
  x1: from.x + from.width / 2 + shift,
  y1: from.y + from.height,
  x2: to.x + to.width / 2 + shift,
  y2: to.y,
});

/** What fits into a width, at some 6 pixels a character. */
export function fitting(text: string, width: number, pixels = 6.1): string {
  const characters = Math.floor(width / pixels);
  if (text.length <= characters) return text;
  return characters < 2 ? "" : `${text.slice(0, characters - 1)}…`;
}
