// Tests of the rules of listeners, and of the warnings about certificates that expire soon.

import assert from "node:assert/strict";
import { test } from "node:test";
import { expiryWarnings, readAccessRules } from "../../../../src/server/listeners/access-rules.ts";
import type { ListenerOptions } from "../../../../src/server/options/listener-settings.ts";
import { defaultSettings } from "../../../../src/server/options/settings.ts";

const DAY_MS = 86_400_000;
const NOW = Date.UTC(2026, 10, 22);

test("a warning about a certificate starts 14 days before its end", () => {
  const warningsOf = (endsAtMs: number): string[] => expiryWarnings([{ name: "a:1", endsAtMs }], NOW);
  assert.deepEqual(warningsOf(NOW + 14 * DAY_MS + 1), []);
  assert.match(warningsOf(NOW + 14 * DAY_MS).join(), /^the certificate of a:1 expires on .* 06 Dec 2026/);
  assert.match(warningsOf(NOW + 1).join(), /expires on/);
  assert.match(warningsOf(NOW - 1).join(), /expired on/);
});

const listener = (more: Partial<ListenerOptions>): ListenerOptions => ({
  ...{
    address: "a:1",
    cert: undefined,
    key: undefined,
    clientCa: undefined,
    minVersion: "1.2",
    auth: "none",
  },
  ...{ allow: undefined, proxyFrom: undefined, mode: undefined, group: undefined },
  ...more,
});

test("a listener has a policy if it requires anything, in the order of the listeners", () => {
  const listeners = [
    listener({}),
    listener({ address: "a:2", allow: ["10.0.0.0/8"] }),
    listener({ address: "unix:/l", mode: 0o600, group: "g" }),
    // None at all may connect.
    listener({ address: "a:3", allow: [] }),
    listener({ address: "a:4", proxyFrom: ["10.0.0.7"] }),
  ];
  const settings = { ...defaultSettings(), listeners };
  const ofListeners = [
    undefined,
    { name: "a:2", auth: "none", allow: ["10.0.0.0/8"], proxyFrom: undefined, tls: undefined },
    undefined,
    { name: "a:3", auth: "none", allow: [], proxyFrom: undefined, tls: undefined },
    { name: "a:4", auth: "none", allow: undefined, proxyFrom: ["10.0.0.7"], tls: undefined },
  ];
  assert.deepEqual(readAccessRules(settings, false).policies, ofListeners);
  assert.deepEqual(readAccessRules(settings, true).policies, [undefined, ...ofListeners]);
});

test("the address of -l and -p has a policy if proxies are named for it, which is for TCP only", () => {
  const proxied = (listen: string) => ({ ...defaultSettings(), listen, proxyFrom: ["10.0.0.0/8"] });
  const policy = { name: "-l and -p", auth: "none", allow: undefined, tls: undefined };
  assert.deepEqual(readAccessRules(proxied("0.0.0.0"), true).policies, [
    { ...policy, proxyFrom: ["10.0.0.0/8"] },
  ]);
  for (const listen of ["none", "unix:/run/socket"])
    assert.throws(
      () => readAccessRules(proxied(listen), listen !== "none"),
      new RegExp(`--proxy-from is for TCP, and -l is ${listen}: set proxy-from in a \\[\\[listener`),
    );
});

test("a listener that asks who its clients are needs a file of tokens", () => {
  for (const auth of ["token", "certificate"] as const)
    assert.throws(
      () => readAccessRules({ ...defaultSettings(), listeners: [listener({ auth })] }, true),
      /a:1: auth = "\w+" needs a token-file/,
    );
});
