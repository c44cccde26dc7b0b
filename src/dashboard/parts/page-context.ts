// What the application and its pages know of each other.

import type { nothing } from "lit-html";
import type { Choice, Part } from "./parts.ts";

/** Where the address says that we are. */
export interface Place {
  /** "", "tubes", "jobs" … */
  readonly page: string;
  /** A tube, or the id of a job. */
  readonly name: string;
  readonly query: URLSearchParams;
}

/** Of a chart; its numbers are counters, of which rates are shown, or numbers as they are (null where there is none). */
export interface ChartLine {
  /** The name of its numbers in the answer. */
  readonly series: string;
  readonly label: string;
  /** A colour of style.css. */
  readonly colour: string;
  readonly isRate: boolean;
  readonly dash?: readonly number[];
}

export interface Chart {
  /** Of its place; those of the sentence that says it and of its table end in "-words" and "-table" (chartPlace in parts.ts). */
  readonly id: string;
  /** What its table is called. */
  readonly title: string;
  /** Where its numbers are asked for. */
  readonly url: string;
  readonly lines: readonly ChartLine[];
  /** "The last 5 minutes", and how many seconds that are. */
  readonly span: string;
  readonly spanSeconds: number;
  /** How a value is written, if not as a number. */
  readonly write?: (value: number) => string;
  /** Says what the lines are at, if no list of values does; undefined where one has no value. */
  readonly inWords?: (values: readonly (string | undefined)[]) => string;
}

/** What a page may do. */
export interface PageContext extends Choice {
  readonly place: Place;
  /** Whether who looks may do this: view, bodies, put, work, manage, admin. */
  may(what: string): boolean;
  /** Loads the dialogs, which the first page does without, and opens one. */
  act(open: (actions: typeof import("./actions.ts")) => void): void;
  redraw(): void;
  /** Changes what the page asks for, in its address; an empty value takes it away. */
  go(change: Readonly<Record<string, string>>): void;
  /** Draws charts in their places, once these are there. */
  charts(charts: readonly Chart[]): typeof nothing;
  /** What was fetched for this page besides its view: a problem, where that was refused. */
  readonly fetched: unknown;
}

export interface Page {
  readonly title: (place: Place) => string;
  /** The query of its view, for who may do what. */
  readonly view: (place: Place, may: (what: string) => boolean) => string;
  readonly show: (view: never, desk: PageContext) => Part;
  /** What is said, now and then, to who does not see the page. */
  readonly says?: (view: never) => string;
  /** The address of something besides, asked for again each few seconds. */
  readonly fetch?: (place: Place, may: (what: string) => boolean) => string | undefined;
  /** It never changes. */
  readonly fetchesOnce?: true;
}
