// Tests of the authentication of requests while the tokens change.

import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import { describe, it } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { drawSecret, hashOf, proofOfPassword } from "../../../../src/access/secrets.ts";
import { parseTokenFile, type Token } from "../../../../src/access/token-file.ts";
import type { Api } from "../../../../src/http/api/api.ts";
import { Problem } from "../../../../src/http/api/problem.ts";
import { Authentication } from "../../../../src/http/app/authentication.ts";

const PASSWORD = "correct-horse-battery";
const [line] = parseTokenFile("person viewer certificate").tokens;
const person: Token = { ...line!, proof: await proofOfPassword(PASSWORD) };
const headers = { authorization: `Basic ${Buffer.from(`person:${PASSWORD}`).toString("base64")}` };

type Hook = (request: object, reply: object, done: (error?: Error) => void) => void;

/** Authenticates with tokens. `ask` resolves to the reason for a refusal, or undefined. */
function guard(tokens: readonly Token[] | undefined) {
  const hooks = new Map<string, Hook>();
  const authentication = new Authentication(
    tokens,
    () => {},
    () => [],
  );
  const addHook = (name: string, hook: Hook): unknown => hooks.set(name, hook);
  authentication.addTo({ addHook } as unknown as Api);
  const reply = { header: () => reply, raw: new EventEmitter().setMaxListeners(0) };
  const ask = (given: object = headers): Promise<Error | undefined> => {
    const request = {
      headers: given,
      ip: "192.0.2.1",
      raw: { socket: {} },
      routeOptions: { config: { may: "view" } },
    };
    return new Promise((resolve) => hooks.get("onRequest")!(request, reply, resolve));
  };
  return { authentication, ask };
}

describe("a request whose password is checked while the tokens are replaced", () => {
  for (const [what, after, code] of [
    ["takes the answer of a token that is the same", [{ ...person }], undefined],
    ["is refused if its token is gone", [], "unauthenticated"],
    ["is refused if its token may something else now", [{ ...person, roles: ["admin"] }], "unauthenticated"],
    ["is refused if its token has ended", [{ ...person, expiresAtMs: 0 }], "unauthenticated"],
    ["may go on if no tokens are wanted any more", undefined, undefined],
  ] as const)
    it(what, async () => {
      const { authentication, ask } = guard([person]);
      const asked = ask();
      authentication.configure(after);
      const refusal = await asked;
      assert.equal(refusal instanceof Problem ? refusal.code : refusal, code);
    });
});

it("delays a flood of requests without a valid token, and no valid one", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const secret = drawSecret();
  const proof = { kind: "sha256", hash: hashOf(secret) } as const;
  for (const wrong of [{ authorization: `Bearer ${drawSecret()}` }, { cookie: "session=none" }, {}]) {
    const { ask } = guard([{ ...line!, proof }]);
    let refused = 0;
    for (let count = 0; count < 1000; count++)
      void ask(wrong).then((problem) => {
        assert.ok(problem instanceof Problem);
        refused++;
      });
    assert.equal(await ask({ authorization: `Bearer ${secret}` }), undefined);
    await turn();
    // 50 a second are not delayed; the rest would also be refused by now.
    assert.ok(refused >= 50 && refused < 500, `${refused} of 1,000 with ${JSON.stringify(wrong)}`);
    t.mock.timers.tick(1000);
    await turn();
    assert.equal(refused, 1000);
  }
});
