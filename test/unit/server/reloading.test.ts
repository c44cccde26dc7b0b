// Tests of what a reload tells the parts of a running server: every setting that may change
// reaches its part, and with a fault in the file none does.

import assert from "node:assert/strict";
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { it, type TestContext } from "node:test";
import type { Logger } from "pino";
import type { AccessRules } from "../../../src/acceptor/admission/listener-policy.ts";
import type { HttpOrder, HttpRules } from "../../../src/http/http-thread.ts";
import { type Exit, type Options, parseOptions } from "../../../src/server/options/options.ts";
import { Reloading } from "../../../src/server/reloading.ts";
import type { AcceptorHandle } from "../../../src/threads/start-threads.ts";
import { makeCertificates } from "../../support/certificates.ts";
import { canRun, NEEDS } from "../../support/machine/need.ts";
import { temporaryFolder } from "../../support/machine/temporary-folder.ts";
import { newToken } from "../../support/server/guarded-server.ts";

type Reloaded = HttpOrder & { order: "reloaded" };

/** The parts of a server, and what they were told last. */
class Parts {
  readonly config: string;
  readonly reloading: Reloading;
  readonly log = { level: "info", lines: [] as string[] };
  memoryBytesMax: number | undefined;
  readonly acceptors: AccessRules[] = [];
  http: HttpRules | undefined;
  #onReloaded: (order: Reloaded) => void = () => {};

  constructor(folder: string, file: string) {
    this.config = join(folder, "runnerbean.toml");
    writeFileSync(this.config, file);
    const read = (): Options | Exit => parseOptions(["--config", this.config], "runnerbean", {});
    const options = read();
    assert.ok(!("exitCode" in options), JSON.stringify(options));
    const { log } = this;
    const say = (line: string): number => log.lines.push(line);
    const logger = Object.assign(log, { info: say, warn: say, error: say }) as unknown as Logger;
    const acceptor = (at: number): AcceptorHandle =>
      ({ configure: (rules: AccessRules) => (this.acceptors[at] = rules) }) as unknown as AcceptorHandle;
    const acceptors = [acceptor(0), acceptor(1)];
    this.reloading = new Reloading(options, read, {
      log: logger,
      isServing: () => true,
      acceptors: () => acceptors,
      tellHttp: (order) => {
        if (order.order === "configure") this.http = order.rules;
        if (order.order === "reloaded") this.#onReloaded(order);
      },
      limitMemory: (bytesMax) => {
        this.memoryBytesMax = bytesMax;
      },
    });
  }

  /** Reloads the configuration with this file, and returns the answer. */
  async reload(file: string, question?: number): Promise<Reloaded> {
    writeFileSync(this.config, file);
    const answer = new Promise<Reloaded>((resolve) => {
      this.#onReloaded = resolve;
    });
    this.reloading.reload("a test", question);
    return await answer;
  }
}

const LIMITS = `log-level = "debug"
proxy-from = ["10.0.0.0/8"]
max-memory = "3M"
max-connections = 5
max-connections-per-address = 6
idle-timeout = "7s"
tcp-keepalive = "30s,5s,4"
[http]
listen = "127.0.0.1:0"
max-requests = 8
proxy-from = ["10.0.0.7"]
`;

/** A folder with a file of tokens, and their lines. */
function folderWithTokens(t: TestContext): { folder: string; tokens: string } {
  const folder = temporaryFolder(t, "reloading");
  const tokens = join(folder, "tokens");
  const lines = [newToken("a", "worker"), newToken("b", "admin")].map(({ line }) => line);
  writeFileSync(tokens, lines.join(""), { mode: 0o600 });
  return { folder, tokens };
}

it("a reload passes every setting that may change to its part", async (t) => {
  const { folder, tokens } = folderWithTokens(t);
  const parts = new Parts(folder, '[http]\nlisten = "127.0.0.1:0"\n');
  assert.deepEqual(parts.reloading.rules.tokens, []);
  assert.equal(parts.reloading.httpRules.tokens, undefined);
  const listener = '[[listener]]\naddress = "127.0.0.1:1"\nauth = "token"\n';
  const answer = await parts.reload(`token-file = "${tokens}"\n${LIMITS}${listener}`, 9);
  assert.deepEqual([answer.successful, answer.question], [true, 9]);
  assert.deepEqual(answer.outcome, {
    changed: [
      ...["log-level", "token-file", "http.max-requests", "http.proxy-from", "max-memory", "max-connections"],
      ...["max-connections-per-address", "idle-timeout", "tcp-keepalive", "proxy-from", "listener"],
      ...["token a added", "token b added"],
    ],
    needsRestart: ["listener"],
  });
  assert.deepEqual([parts.log.level, parts.memoryBytesMax], ["debug", 3 << 20]);
  const [rules] = parts.acceptors;
  assert.ok(rules !== undefined);
  assert.deepEqual(parts.acceptors, [rules, rules]);
  assert.deepEqual(parts.reloading.rules, rules);
  assert.deepEqual(rules.limits, {
    ...{ connections: 5, perAddress: 6, idleMs: 7000 },
    keepAlive: { delayMs: 30_000, intervalMs: 5000, count: 4 },
  });
  assert.deepEqual(
    rules.tokens.map(({ name }) => name),
    ["a", "b"],
  );
  // The listener is not open yet; the first one requires nothing.
  assert.deepEqual(
    rules.policies.map((policy) => policy?.proxyFrom),
    [["10.0.0.0/8"]],
  );
  assert.deepEqual(parts.http, {
    ...{ tokens: rules.tokens, requestsMax: 8, proxyFrom: ["10.0.0.7"], tls: undefined, certificates: [] },
  });
});

it("a reload takes the limits back to none, and needs no token any more", async (t) => {
  const { folder, tokens } = folderWithTokens(t);
  const parts = new Parts(folder, `token-file = "${tokens}"\n${LIMITS}`);
  assert.equal(parts.reloading.httpRules.tokens?.length, 2);
  await parts.reload('[http]\nlisten = "127.0.0.1:0"\n');
  assert.deepEqual([parts.log.level, parts.memoryBytesMax], ["info", Number.POSITIVE_INFINITY]);
  const { connections, perAddress, idleMs } = parts.acceptors[1]!.limits;
  assert.deepEqual([connections, perAddress, idleMs], Array(3).fill(Number.POSITIVE_INFINITY));
  assert.deepEqual(parts.acceptors[1]!.tokens, []);
  assert.deepEqual([parts.http!.tokens, parts.http!.requestsMax], [undefined, Number.POSITIVE_INFINITY]);
  assert.deepEqual([parts.acceptors[1]!.policies, parts.http!.proxyFrom], [[undefined], undefined]);
});

it("a reload that finds a fault changes nothing, and the next one may succeed", async (t) => {
  const { folder, tokens } = folderWithTokens(t);
  const parts = new Parts(folder, 'log-level = "warn"\n');
  const first = await parts.reload('log-level = "warn"\n');
  for (const fault of ['log-level = "loud"\n', LIMITS.replace("= 8", "= 0"), 'token-file = "/nowhere"\n']) {
    [parts.acceptors.length, parts.http, parts.memoryBytesMax] = [0, undefined, undefined];
    const { successful, successAt, outcome, question } = await parts.reload(fault);
    assert.deepEqual([successful, successAt, question], [false, first.successAt, undefined], fault);
    assert.ok("faults" in outcome && outcome.faults.length > 0);
    assert.ok(parts.log.lines.at(-1)!.includes("everything stays as it was"));
    assert.deepEqual([parts.acceptors, parts.http, parts.memoryBytesMax], [[], undefined, undefined]);
    assert.equal(parts.log.level, "warn");
  }
  const answer = await parts.reload(`token-file = "${tokens}"\n${LIMITS}`);
  assert.ok(answer.successful && answer.successAt >= first.successAt);
  assert.equal(parts.log.level, "debug");
});

it("a reload reads the certificates again, of HTTP and of each listener", async (t) => {
  if (!canRun(t, NEEDS.openssl)) return;
  const folder = temporaryFolder(t, "reloading");
  const files = makeCertificates(folder);
  const textOf = (path: string): string => readFileSync(path, "utf8");
  const { cert, key, ca } = files;
  const fileWith = (min: string, more = ""): string => `[http]
listen = "127.0.0.1:0"
tls = { cert = "${cert}", key = "${key}", min = "${min}"${more} }
[[listener]]
address = "127.0.0.1:1"
tls = { cert = "${cert}", key = "${key}", client-ca = "${ca}", min = "${min}" }
allow = ["10.0.0.0/8"]
`;
  const parts = new Parts(folder, fileWith("1.2"));
  const tlsOf = (minVersion: string, clientCa: string | undefined): unknown => ({
    ...{ cert: textOf(cert), key: textOf(key), clientCa, minVersion },
  });
  const policyWith = (minVersion: string): unknown => ({
    ...{ name: "127.0.0.1:1", auth: "none", allow: ["10.0.0.0/8"], proxyFrom: undefined },
    tls: tlsOf(minVersion, textOf(ca)),
  });
  assert.deepEqual(parts.reloading.rules.policies, [undefined, policyWith("TLSv1.2")]);
  assert.deepEqual(parts.reloading.httpRules.tls, tlsOf("TLSv1.2", undefined));
  const renewed = makeCertificates(temporaryFolder(t, "renewed"));
  copyFileSync(renewed.cert, cert);
  copyFileSync(renewed.key, key);
  await parts.reload(fileWith("1.3"));
  assert.deepEqual(parts.acceptors[0]!.policies, [undefined, policyWith("TLSv1.3")]);
  assert.deepEqual(parts.http!.tls, tlsOf("TLSv1.3", undefined));
  assert.deepEqual(
    parts.http!.certificates.map(({ name }) => name),
    ["127.0.0.1:1", "http"],
  );
  // To require certificates of clients needs a restart, and until then nothing of it changes.
  const { outcome } = await parts.reload(fileWith("1.2", `, client-ca = "${ca}"`));
  assert.ok("needsRestart" in outcome);
  assert.deepEqual(outcome.needsRestart, ["http.tls.client-ca"]);
  assert.deepEqual(parts.http!.tls, tlsOf("TLSv1.3", undefined));
  assert.deepEqual(parts.acceptors[0]!.policies, [undefined, policyWith("TLSv1.2")]);
});
