// Request metrics: counts and durations by the route's template, never by the URL that a client
// sent.

import type { onRequestHookHandler } from "fastify";
import { BucketCounts } from "../../message/log-figures.ts";
import type { Api } from "../api/api.ts";
import { counter, type Family, histogram } from "../metrics/metrics-text.ts";

const BOUNDS_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10] as const;

/** Counts of responses by status for one route and method. Methods of a route share `times`. */
interface Metered {
  readonly route: string;
  readonly method: string;
  readonly counts: Map<number, number>;
  readonly times: BucketCounts;
}

declare module "fastify" {
  interface FastifyRequest {
    /** Undefined until the route is known, or if there is none. */
    metered: Metered | undefined;
  }
}

export class RequestMeter {
  readonly #metered = new Map<string, Metered>();
  readonly #times = new Map<string, BucketCounts>();

  /** Requests without a response so far. */
  underWay = 0;

  /** Adds the meter to the application. Must run before the routes are added. */
  addTo(api: Api): void {
    const notes = new Set<unknown>();
    api.decorateRequest("metered");
    // Each route looks up its counters once, because Fastify builds the route options anew for each
    // request that reads them.
    api.addHook("onRoute", (route) => {
      const { url, method } = route;
      if (typeof method !== "string") return;
      let metered: Metered | undefined;
      const note: onRequestHookHandler = (request, _reply, done) => {
        request.metered = metered ??= this.#of(url, method);
        done();
      };
      notes.add(note);
      // HEAD routes are derived from GET routes, and inherit their hooks.
      const others = [route.onRequest ?? []].flat().filter((hook) => !notes.has(hook));
      route.onRequest = [note, ...others];
    });
    api.addHook("onResponse", (request, reply, done) => {
      const { counts, times } =
        request.metered ?? this.#of(request.routeOptions.url ?? "none", request.method);
      const { statusCode } = reply;
      counts.set(statusCode, (counts.get(statusCode) ?? 0) + 1);
      times.add(reply.elapsedTime / 1000);
      done();
    });
  }

  #of(route: string, method: string): Metered {
    const key = `${method} ${route}`;
    const known = this.#metered.get(key);
    if (known !== undefined) return known;
    const times = this.#times.get(route) ?? new BucketCounts(BOUNDS_SECONDS);
    this.#times.set(route, times);
    const metered = { route, method, counts: new Map(), times };
    this.#metered.set(key, metered);
    return metered;
  }

  *families(): Iterable<Family> {
    yield counter(
      "http_requests",
      "Answered HTTP requests.",
      [...this.#metered.values()].flatMap(({ route, method, counts }) =>
        Array.from(counts, ([status, count]) => ({
          value: count,
          labels: { route, method, status: `${status}` },
        })),
      ),
    );
    yield histogram(
      "http_request_seconds",
      "Time from a request to the end of its answer, including waits.",
      BOUNDS_SECONDS,
      Array.from(this.#times, ([route, { counts, sum }]) => ({ counts, sum, labels: { route } })),
    );
  }
}
