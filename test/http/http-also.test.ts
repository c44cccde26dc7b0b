// Tests of `[[http.also]]`: further HTTP addresses, each of which offers only its own services.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { freePort } from "../support/machine/free-port.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { newToken } from "../support/server/guarded-server.ts";
import { launch, type ServerProcess } from "../support/server/server-process.ts";
import { untilItSays } from "../support/server/until-it-says.ts";

describe("[[http.also]]", () => {
  const folder = temporaryFolder({ after }, "http-also");
  const config = join(folder, "runnerbean.toml");
  const tokens = join(folder, "tokens");
  const person = newToken("person", "operator");
  let server: ServerProcess;
  let ports: number[];

  before(async () => {
    writeFileSync(tokens, person.line, { mode: 0o600 });
    ports = [await freePort(), await freePort(), await freePort()];
    writeFileSync(
      config,
      `token-file = "${tokens}"
[http]
listen = "127.0.0.1:${ports[0]}"
[[http.also]]
listen = "0.0.0.0:${ports[1]}"
serve = ["health", "metrics"]
metrics-public = true
[[http.also]]
listen = "127.0.0.1:${ports[2]}"
serve = ["api"]
`,
    );
    server = await launch({ kind: "ours", flags: ["--config", config] });
    await untilItSays(server, /serves on .* and http.* and http.* and http/);
  });
  after(() => server?.stop());

  const status = async (port: number, path: string, secret?: string): Promise<number> => {
    const headers = secret === undefined ? {} : { authorization: `Bearer ${secret}` };
    return (await fetch(`http://127.0.0.1:${ports[port]}${path}`, { headers })).status;
  };

  it("serves only what it lists", async () => {
    const found = async (port: number): Promise<number[]> => {
      const paths = ["/livez", "/readyz?for=put", "/metrics", "/v1/health", "/v1/tubes", "/v1/session", "/"];
      return await Promise.all(paths.map((path) => status(port, path, person.secret)));
    };
    assert.deepEqual(await found(0), [200, 200, 200, 200, 200, 200, 200]);
    assert.deepEqual(await found(1), [200, 200, 200, 404, 404, 404, 404]);
    assert.deepEqual(await found(2), [404, 404, 404, 200, 200, 200, 404]);
  });

  it("demands tokens like the first address, except for public metrics", async () => {
    assert.deepEqual(
      [await status(0, "/metrics"), await status(1, "/metrics"), await status(1, "/metrics/tubes")],
      [401, 200, 200],
    );
    assert.deepEqual([await status(0, "/v1/tubes"), await status(2, "/v1/tubes")], [401, 401]);
    // Tokens that are read again count everywhere.
    const other = newToken("other", "monitor");
    writeFileSync(tokens, other.line, { mode: 0o600 });
    server.signal("SIGHUP");
    await untilItSays(server, /configuration read again/);
    assert.equal(await status(2, "/v1/tubes", person.secret), 401);
    assert.equal(await status(2, "/v1/tubes", other.secret), 200);
  });

  it("is refused if strangers could change something, or if it names something unknown", async () => {
    for (const [text, said] of [
      [
        '[http]\nlisten = "127.0.0.1:0"\n[[http.also]]\nlisten = "0.0.0.0:0"\n',
        /reachable from other machines/,
      ],
      [
        '[http]\nlisten = "127.0.0.1:0"\n[[http.also]]\nlisten = "0.0.0.0:0"\nserve = ["metrics"]\n',
        /metrics-public = true/,
      ],
      ['[[http.also]]\nlisten = "127.0.0.1:0"\n', /set http\.listen/],
      [
        '[http]\nlisten = "127.0.0.1:0"\n[[http.also]]\nserve = ["health"]\n',
        /:3: \[\[http\.also\]\] needs listen/,
      ],
      [
        '[http]\nlisten = "127.0.0.1:0"\n[[http.also]]\nlisten = "127.0.0.1:0"\nserve = ["helth"]\n',
        /:5: serve: helth is not one of health, metrics, api, dashboard/,
      ],
      [
        '[http]\nlisten = "127.0.0.1:0"\n[[http.also]]\nlisten = "127.0.0.1:0"\nsecure = true\n',
        /takes the certificate of \[http\]/,
      ],
    ] as const) {
      const bad = join(folder, "bad.toml");
      writeFileSync(bad, text);
      const refused = await launch({ kind: "ours", flags: ["--config", bad] });
      assert.deepEqual(await refused.refused(), { code: 5, signal: null }, text);
      assert.match(refused.stderr, said);
    }
  });

  it("whose port is taken stops the start with a message", async () => {
    const taken = join(folder, "taken.toml");
    const also = `[[http.also]]\nlisten = "127.0.0.1:${ports[0]}"\n`;
    writeFileSync(taken, `[http]\nlisten = "127.0.0.1:0"\n${also}`);
    const refused = await launch({ kind: "ours", flags: ["--config", taken] });
    assert.notEqual((await refused.refused()).code, 0);
    assert.match(
      refused.stderr,
      new RegExp(`on 127\\.0\\.0\\.1:${ports[0]}: .*listen of \\[\\[http\\.also\\]\\]`),
    );
  });
});
