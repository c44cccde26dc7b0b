// Bare fastify as a baseline: answers a small JSON POST with a number. Prints its port at the
// start.

import Fastify from "fastify";

const app = Fastify({ logger: false });
let id = 0;
app.post("/v1/tubes/bench/jobs", (_request, reply) => {
  reply.code(201);
  return { id: ++id };
});
const address = await app.listen({ host: "127.0.0.1", port: 0 });
console.log(`serves on ${address} with nothing behind it`);
