// Counts requests and their times, by the template of the route: never by what a client wrote there.

import { counter, type Family, histogram, Observed } from "../metrics/family.ts";

const BOUNDS_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10] as const;

export class RequestMeter {
  readonly #answered = new Map<
    string,
    { labels: { route: string; method: string; status: string }; count: number }
  >();
  readonly #times = new Map<string, Observed>();

  /** Requests that are not answered yet. */
  underWay = 0;

  answered(route: string, method: string, status: number, seconds: number): void {
    const key = `${method} ${route} ${status}`;
    let known = this.#answered.get(key);
    if (known === undefined) {
      known = { labels: { route, method, status: `${status}` }, count: 0 };
      this.#answered.set(key, known);
    }
    known.count++;
    let times = this.#times.get(route);
    if (times === undefined) {
      times = new Observed(BOUNDS_SECONDS);
      this.#times.set(route, times);
    }
    times.add(seconds);
  }

  *families(): Iterable<Family> {
    yield counter(
      "http_requests",
      "Requests over HTTP that were answered.",
      [...this.#answered.values()].map(({ labels, count }) => ({ value: count, labels })),
    );
    yield histogram(
      "http_request_seconds",
      "From a request to the end of its answer, waits included.",
      BOUNDS_SECONDS,
      Array.from(this.#times, ([route, { counts, sum }]) => ({ counts, sum, labels: { route } })),
    );
  }
}
