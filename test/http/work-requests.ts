// Requests of producers and workers over HTTP.

import type { HttpAnswer, HttpServer } from "../support/server/http-server.ts";

/** Asks the server that `server` returns: a test may start another one. */
export class WorkRequests {
  readonly #server: () => HttpServer;

  constructor(server: () => HttpServer) {
    this.#server = server;
  }

  readonly put = async (tube: string, body: string): Promise<number> =>
    (await this.#server().ask(`/v1/tubes/${tube}/jobs`, { json: { body } })).json.id;

  // biome-ignore lint/suspicious/noExplicitAny: a test says what it expects of it
  readonly reserve = async (tube: string, more: object = {}): Promise<any> =>
    (await this.#server().ask("/v1/reserve", { json: { tubes: [tube], wait: 0, ...more } })).json.jobs;

  readonly act = (lease: string, what: string, json?: object): Promise<HttpAnswer> =>
    this.#server().ask(`/v1/leases/${lease}/${what}`, {
      method: "POST",
      ...(json === undefined ? {} : { json }),
    });

  readonly stateOf = async (id: number): Promise<string> =>
    (await this.#server().ask(`/v1/jobs/${id}`)).json.state;
}
