// What the application and its pages know of each other.

import type { Part } from "./parts.ts";

/** Where the address says that we are. */
export interface Place {
  /** "", "tubes", "jobs" … */
  readonly page: string;
  /** A tube, or the id of a job. */
  readonly name: string;
  readonly query: URLSearchParams;
}

/** What a page may do. */
export interface Desk {
  readonly place: Place;
  /** Whether who looks may do this: view, bodies, put, work, manage, admin. */
  may(what: string): boolean;
  /** Loads the dialogs, which the first page does without, and opens one. */
  act(open: (actions: typeof import("./actions.ts")) => void): void;
  redraw(): void;
  /** Changes what the page asks for, in its address; an empty value takes it away. */
  go(change: Readonly<Record<string, string>>): void;
  /** Loads the place of the chart, once it is there. */
  chart(place: Element | undefined): void;
  /** What was fetched for this page besides its view: a problem, where that was refused. */
  readonly fetched: unknown;
}

export interface Page {
  readonly title: (place: Place) => string;
  /** The query of its view. */
  readonly view: (place: Place) => string;
  readonly show: (view: never, desk: Desk) => Part;
  /** The address of something besides, asked for again each few seconds. */
  readonly fetch?: (place: Place) => string;
}
