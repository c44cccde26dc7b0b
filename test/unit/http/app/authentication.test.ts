// Tests of the authentication of requests while the tokens change.

import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import type { ServerResponse } from "node:http";
import { describe, it, type TestContext } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { drawSecret, hashOf, proofOfPassword } from "../../../../src/access/secrets.ts";
import { parseTokenFile, type Token } from "../../../../src/access/token-file.ts";
import type { Api } from "../../../../src/http/api/api.ts";
import { Problem } from "../../../../src/http/api/problem.ts";
import {
  Authentication,
  Sessions,
  SlowRefusals,
  StandingWaits,
} from "../../../../src/http/app/authentication.ts";

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

// Tests of sessions: they end with their time, with their token, and by age if there are too many.

const NOW = 1_000_000;
const HOURS_12 = 12 * 3_600_000;
const SESSIONS_MAX = 10_000;
const tokenNamed = (name: string, digit: string) =>
  parseTokenFile(`${name} viewer sha256:${digit.repeat(64)}`).tokens[0]!;
const identity = tokenNamed("someone", "0");

const cookieOf = (setCookie: string): string => setCookie.split(";")[0]!;
const stands = (): boolean => true;

describe("Sessions", () => {
  it("end after 12 hours, in the browser and in the server", () => {
    const sessions = new Sessions();
    const setCookie = sessions.begin(identity, NOW, true);
    assert.match(setCookie, /; Max-Age=43200;/);
    const cookie = cookieOf(setCookie);
    assert.equal(sessions.find(cookie, NOW + HOURS_12 - 1, stands), identity);
    assert.equal(sessions.find(cookie, NOW + HOURS_12, stands), undefined);
    assert.equal(sessions.find(cookie, NOW, stands), undefined, "it is forgotten");
  });

  it("end when their token is gone", () => {
    const sessions = new Sessions();
    const cookie = cookieOf(sessions.begin(identity, NOW, true));
    assert.equal(
      sessions.find(cookie, NOW, () => false),
      undefined,
    );
    assert.equal(sessions.find(cookie, NOW, stands), undefined, "it is forgotten");
  });

  it("end the oldest beyond their number", () => {
    const sessions = new Sessions();
    const [first, second, ...others] = Array.from({ length: SESSIONS_MAX + 1 }, () =>
      cookieOf(sessions.begin(identity, NOW, true)),
    );
    assert.equal(sessions.find(first, NOW, stands), undefined);
    assert.equal(sessions.find(second, NOW, stands), identity);
    assert.equal(sessions.find(others.at(-1), NOW, stands), identity);
  });

  it("of one token end none of another, however often it signs in", () => {
    const sessions = new Sessions();
    const other = tokenNamed("another", "1");
    const before = cookieOf(sessions.begin(other, NOW, true));
    const [first] = Array.from({ length: SESSIONS_MAX + 1 }, () =>
      cookieOf(sessions.begin(identity, NOW, true)),
    );
    assert.equal(sessions.find(before, NOW, stands), other);
    assert.equal(sessions.find(first, NOW, stands), undefined);
    // There is room for the other token all the same, also after its sessions have ended.
    sessions.end(before);
    const later = [1, 2, 3].map(() => cookieOf(sessions.begin(other, NOW, true)));
    for (const each of later) assert.equal(sessions.find(each, NOW, stands), other);
  });
});

// Tests of the delay of refusals: a flood of them takes few turns, and no delay outlives its client
// or the server.

const AT_ONCE_PER_SECOND = 50;
const LATER_MS = 1000;
const FLOOD = 1000;

class Answer extends EventEmitter {
  destroyed = false;
}

/** Refusals on a clock that stands still; `flood` returns the number that have been sent. */
function refusals(t: TestContext) {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const slow = new SlowRefusals(() => 0);
  const answers: Answer[] = [];
  const sent = { count: 0 };
  const ask = (address: string): void => {
    const answer = new Answer();
    answers.push(answer);
    void slow.wait(address, answer as unknown as ServerResponse).then(() => sent.count++);
  };
  return { slow, answers, sent, ask };
}

describe("refusals of an address", () => {
  it("are sent at once while they are few, and a second later in a flood", async (t) => {
    const { sent, ask } = refusals(t);
    for (let count = 0; count < FLOOD; count++) ask("192.0.2.1");
    await turn();
    assert.equal(sent.count, AT_ONCE_PER_SECOND);
    ask("192.0.2.2");
    await turn();
    assert.equal(sent.count, AT_ONCE_PER_SECOND + 1, "another address is not delayed");
    t.mock.timers.tick(LATER_MS - 1);
    await turn();
    assert.equal(sent.count, AT_ONCE_PER_SECOND + 1);
    t.mock.timers.tick(1);
    await turn();
    assert.equal(sent.count, FLOOD + 1);
  });

  it("are not delayed any more once the client has disconnected or the server stops", async (t) => {
    const { slow, answers, sent, ask } = refusals(t);
    for (let count = 0; count < FLOOD; count++) ask("192.0.2.1");
    answers.at(-1)!.emit("close");
    await turn();
    assert.equal(sent.count, AT_ONCE_PER_SECOND + 1);
    slow.end();
    await turn();
    assert.equal(sent.count, FLOOD);
    ask("192.0.2.1");
    await turn();
    assert.equal(sent.count, FLOOD + 1, "a request during the stop");
  });
});

// Tests of waits whose token expires: each is ended, also one that begins after all earlier ones
// are over.

const LOOK_EACH_MS = 1000;

it("ends a wait whose token expires, again after there were none for a while", (t) => {
  t.mock.timers.enable({ apis: ["setInterval"] });
  const waits = new StandingWaits();
  for (const round of ["the first", "a later one"]) {
    let isValid = true;
    let ended = 0;
    const remove = waits.add({ stands: () => isValid, end: () => ended++ });
    t.mock.timers.tick(LOOK_EACH_MS);
    assert.equal(ended, 0, `${round} goes on with a valid token`);
    isValid = false;
    t.mock.timers.tick(LOOK_EACH_MS);
    assert.equal(ended, 1, `${round} ends with its token`);
    remove();
    t.mock.timers.tick(LOOK_EACH_MS);
    assert.equal(ended, 1, `${round} ends once`);
  }
});
