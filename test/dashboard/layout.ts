// What is wrong with the layout of a page as it is shown: controls that nobody can reach, and text
// that nobody can read.

import assert from "node:assert/strict";
import type { Page } from "playwright-core";

/** Runs in the page. Positions are rounded, so everything may be off by a pixel. */
const FAULTS = `(() => {
  const SLACK = 1;
  const faults = [];
  const isShown = (element) => element.checkVisibility() && element.closest(".hidden") === null;
  const named = (element) =>
    element.tagName.toLowerCase() + " " + (element.ariaLabel ?? element.textContent ?? "").trim().slice(0, 40);
  /** The nearest ancestor that clips what is wider than it. */
  const clipOf = (node) => {
    let at = node.parentElement;
    while (at !== null && getComputedStyle(at).overflowX === "visible") at = at.parentElement;
    return at;
  };
  const top = document.querySelector("dialog[open]") ?? document.body;

  if (top !== document.body && top.scrollWidth > top.clientWidth + SLACK)
    faults.push("scrolls sideways: dialog");

  // --- Controls ---
  const reached = [];
  for (const control of top.querySelectorAll("a[href], button, input, select, textarea, summary")) {
    if (!isShown(control)) continue;
    const clip = clipOf(control)?.getBoundingClientRect();
    for (const box of control.getClientRects()) {
      // Its list scrolls.
      if (clip !== undefined && (box.right > clip.right + SLACK || box.left < clip.left - SLACK)) continue;
      if (box.left < -SLACK || box.right > innerWidth + SLACK) faults.push("outside of the window: " + named(control));
      const [x, y] = [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
      const front = document.elementFromPoint(x, y);
      if (front !== null && !control.contains(front) && !front.contains(control))
        faults.push("covered by " + named(front) + ": " + named(control));
      reached.push({ control, box });
    }
  }
  reached.forEach(({ control, box }, index) => {
    for (const { control: other, box: its } of reached.slice(index + 1)) {
      if (control.contains(other) || other.contains(control)) continue;
      const width = Math.min(box.right, its.right) - Math.max(box.left, its.left);
      const height = Math.min(box.bottom, its.bottom) - Math.max(box.top, its.top);
      if (width > SLACK && height > SLACK) faults.push("overlap: " + named(control) + ", " + named(other));
    }
  });

  // --- Text ---
  const texts = document.createTreeWalker(top, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  for (let text = texts.nextNode(); text !== null; text = texts.nextNode()) {
    const element = text.parentElement;
    if (text.data.trim() === "" || !isShown(element) || element.closest("option, .uplot") !== null) continue;
    range.selectNodeContents(text);
    const box = range.getBoundingClientRect();
    const clip = clipOf(text);
    const edge = (clip ?? document.documentElement).getBoundingClientRect();
    const scrolls = clip !== null && getComputedStyle(clip).overflowX !== "hidden";
    if (!scrolls && box.right > edge.right + SLACK && element.closest("[title]") === null)
      faults.push("cut off without a title: " + text.data.trim().slice(0, 60));
    const card = element.closest(".card, .tile, dialog")?.getBoundingClientRect();
    if (clip === null && card !== undefined && box.right > card.right + SLACK)
      faults.push("runs out of its card: " + text.data.trim().slice(0, 60));
  }
  const pen = document.createElement("canvas").getContext("2d");
  for (const field of top.querySelectorAll("input[placeholder]")) {
    if (!isShown(field) || field.title !== "") continue;
    const { font, paddingLeft, paddingRight } = getComputedStyle(field);
    pen.font = font;
    // A search field keeps room for the button that empties it.
    const button = field.type === "search" ? 1.6 * parseFloat(getComputedStyle(field).fontSize) : 0;
    const room = field.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight) - button;
    if (pen.measureText(field.placeholder).width > room + SLACK) faults.push("cut off: " + field.placeholder);
  }
  return [...new Set(faults)];
})()`;

/** The window must be as high as the page: what is scrolled away is not looked at. */
export const layoutFaults = (page: Page): Promise<unknown> => page.evaluate(FAULTS);

export async function assertLaidOut(page: Page, what: string): Promise<void> {
  assert.deepEqual(await layoutFaults(page), [], what);
}
