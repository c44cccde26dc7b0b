// Interface between the application and its pages.

import type { nothing } from "lit-html";
import type { Choice, Part } from "./elements.ts";

/** The parsed address. */
export interface Place {
  /** "", "tubes", "jobs" … */
  readonly page: string;
  /** A tube, or the id of a job. */
  readonly name: string;
  readonly query: URLSearchParams;
}

/**
 * One line of a chart. Its values are counters, shown as rates, or plain numbers (null if there is
 * none).
 */
export interface ChartLine {
  /** Name of the series in the response. */
  readonly series: string;
  readonly label: string;
  /** A colour of styles/frame.css. */
  readonly colour: string;
  readonly isRate: boolean;
  readonly dash?: readonly number[];
}

export interface Chart {
  /**
   * Id of the chart's element. Those of its sentence and its table end in "-words" and "-table"
   * (chartPlace in elements.ts).
   */
  readonly id: string;
  /** Caption of the table. */
  readonly title: string;
  /** URL of the data. */
  readonly url: string;
  readonly lines: readonly ChartLine[];
  /** On a logarithmic scale, so that one outlier flattens nothing. */
  readonly isLog: boolean;
  /** "The last 5 minutes", and the same in seconds. */
  readonly span: string;
  readonly spanSeconds: number;
  /** Formats a value that isn't a plain number. */
  readonly write?: (value: number) => string;
  /** Describes the values instead of a plain list; a value is undefined if its line has none. */
  readonly inWords?: (values: readonly (string | undefined)[]) => string;
}

/** Interface of the application for a page. */
export interface PageContext extends Choice {
  readonly place: Place;
  /** Tells whether the user may view, bodies, put, work, manage, admin; or has ALL_TUBES. */
  may(what: string): boolean;
  /** Loads the dialogs on demand, and opens one. */
  act(open: (actions: typeof import("./actions.ts")) => void): void;
  redraw(): void;
  /** Changes parameters in the page's address; an empty value removes one. */
  go(change: Readonly<Record<string, string>>): void;
  /**
   * Does the same once typing pauses. It then calls `change`, unless the user has left the page in
   * the meantime.
   */
  goSoon(change: () => Readonly<Record<string, string>>): void;
  /** Draws charts once their elements exist. */
  charts(charts: readonly Chart[]): typeof nothing;
  /** Paths that the view answers; differ from the page's while the next view is awaited. */
  readonly viewFrom: string;
  /** Data fetched besides the view; a problem if the request was refused. */
  readonly fetched: unknown;
  /** URL of the request that the fetched data answers. */
  readonly fetchedFrom: string;
}

export interface Page {
  readonly title: (place: Place) => string;
  /** Returns the paths that the page watches, by name; they may depend on permissions. */
  readonly view: (place: Place, may: (what: string) => boolean) => Readonly<Record<string, string>>;
  /** The view has the answers under these names, null for what doesn't exist, and the health. */
  readonly show: (view: never, context: PageContext) => Part;
  /** Returns announcements for screen readers. */
  readonly says?: (view: never) => string;
  /** Returns the URL of additional data, refreshed every few seconds. */
  readonly fetch?: (place: Place, may: (what: string) => boolean) => string | undefined;
  /** Returns whether the additional data is complete, so that it need not be fetched again. */
  readonly isLast?: (fetched: unknown) => boolean;
  /** Has something to show even while the server serves no jobs. */
  readonly isOfServer?: true;
}
