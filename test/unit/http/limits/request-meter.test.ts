// Tests of the request counts by route template, method and status; requests without a route count
// together.

import assert from "node:assert/strict";
import { it } from "node:test";
import Fastify from "fastify";
import type { Api } from "../../../../src/http/api/api.ts";
import { RequestMeter } from "../../../../src/http/limits/request-meter.ts";

it("RequestMeter counts by route, method and status", async (t) => {
  const meter = new RequestMeter();
  const api = Fastify() as unknown as Api;
  t.after(() => api.close());
  meter.addTo(api);
  api.get("/jobs/:id", () => "job");
  api.post("/jobs", (_request, reply) => reply.code(201).send());
  // Refused before the route's own hooks, as by a wrong Host.
  api.addHook("onRequest", (request, reply, done) => {
    if (request.headers["x-refuse"] === undefined) done();
    else void reply.code(421).send();
  });
  api.put("/jobs/:id", () => "changed");
  const of = (method: "GET" | "HEAD" | "POST" | "PUT", url: string, headers = {}) =>
    api.inject({ method, url, headers });
  for (const url of ["/jobs/1", "/jobs/2"]) await of("GET", url);
  await of("HEAD", "/jobs/1");
  await of("POST", "/jobs");
  await of("PUT", "/jobs/1", { "x-refuse": "1" });
  await of("PUT", "/jobs/1");
  for (const url of ["/a", "/b", "/c"]) await of("GET", url);
  const [requests, seconds] = [...meter.families()];
  const counted = requests!.samples.map(({ labels, value }) => [labels, value] as const);
  assert.deepEqual(
    counted.map(([labels, value]) => `${Object.values(labels ?? {}).join(" ")} ${value}`).sort(),
    [
      "/jobs POST 201 1",
      "/jobs/:id GET 200 2",
      "/jobs/:id HEAD 200 1",
      "/jobs/:id PUT 200 1",
      "/jobs/:id PUT 421 1",
      "none GET 404 3",
    ],
  );
  const times = seconds!.samples.filter(({ suffix }) => suffix === "_count");
  assert.deepEqual(times.map(({ labels, value }) => `${labels?.["route"]} ${value}`).sort(), [
    "/jobs 1",
    "/jobs/:id 5",
    "none 3",
  ]);
});
