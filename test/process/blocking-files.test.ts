// Tests with files that never answer: a start and a reload refuse FIFOs at once, and a reload waits
// for a mount that doesn't answer while it handles signals.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { makeCertificates } from "../support/certificates.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { launch, type ServerProcess } from "../support/server/server-process.ts";
import { untilItSays } from "../support/server/until-it-says.ts";
import { WireClient } from "../support/server/wire-client.ts";

function replaceByFifo(path: string): void {
  rmSync(path, { force: true });
  execFileSync("mkfifo", [path]);
}

/** Returns a PATH whose shell never ends while `marker` exists: a mount that doesn't answer. */
function pathWithSlowShell(folder: string, marker: string): string {
  const programs = join(folder, "programs");
  mkdirSync(programs);
  const script = `#!/bin/sh\n[ -e ${marker} ] && exec sleep 600\nexec /bin/sh "$@"\n`;
  writeFileSync(join(programs, "sh"), script, { mode: 0o755 });
  return `${programs}:${process.env["PATH"]}`;
}

async function serves(server: ServerProcess): Promise<void> {
  const client = await WireClient.connect(server.address);
  assert.equal((await client.ask("list-tube-used")).line, "USING default");
  client.close();
}

describe("a file that never answers", () => {
  it("is refused at the start, whichever it is", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const fifo = join(temporaryFolder(t, "fifo"), "fifo");
    replaceByFifo(fifo);
    const tls = ["--http-tls-cert", fifo, "--http-tls-key", fifo];
    for (const flags of [
      ["--config", fifo],
      ["--token-file", fifo],
      ["--tubes", fifo],
      ["--http", "127.0.0.1:0", ...tls],
    ]) {
      const server = await launch({ kind: "ours", flags });
      const { code } = await server.refused();
      assert.equal(code, 5, flags.join(" "));
      assert.match(server.stderr, /fifo is a FIFO or a device; name a regular file/);
    }
  });

  it("at a reload blocks no signal: clients are served, a later reload works, SIGTERM ends the server", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const folder = temporaryFolder(t, "fifo");
    const config = join(folder, "c.toml");
    writeFileSync(config, "max-connections = 1000\n");
    const marker = join(folder, "hangs");
    const env = { PATH: pathWithSlowShell(folder, marker) };
    const server = await launch({ kind: "ours", flags: ["--config", config], env });
    t.after(() => server.kill());
    await untilItSays(server, /serves on/);

    writeFileSync(marker, "");
    server.signal("SIGHUP");
    await serves(server);
    await untilItSays(server, /SIGHUP: everything stays as it was: \S+c\.toml could not be read within 5 s/);

    const next = join(folder, "next.toml");
    writeFileSync(next, "max-connections = 2000\n");
    renameSync(next, config);
    rmSync(marker);
    server.signal("SIGHUP");
    await untilItSays(server, /SIGHUP: configuration read again; changed: max-connections/);

    writeFileSync(marker, "");
    server.signal("SIGHUP");
    await serves(server);
    server.signal("SIGTERM");
    assert.deepEqual(await server.exited, { code: 0, signal: null });
  });

  it("is named at a reload, also tokens and certificates", async (t) => {
    if (!canRun(t, NEEDS.ours, NEEDS.openssl)) return;
    const folder = temporaryFolder(t, "fifo");
    const { cert, key } = makeCertificates(folder);
    const tokens = join(folder, "tokens");
    writeFileSync(tokens, "# no tokens\n", { mode: 0o600 });
    const tls = ["--http", "127.0.0.1:0", "--http-tls-cert", cert, "--http-tls-key", key];
    const server = await launch({ kind: "ours", flags: ["--token-file", tokens, ...tls] });
    t.after(() => server.kill());
    await untilItSays(server, /serves on/);
    replaceByFifo(cert);
    server.signal("SIGHUP");
    await untilItSays(server, new RegExp(`http: the certificate ${RegExp.escape(cert)} is a FIFO`));
    replaceByFifo(tokens);
    rmSync(cert);
    server.signal("SIGHUP");
    await untilItSays(server, new RegExp(`: the token file ${RegExp.escape(tokens)} is a FIFO`));
    server.signal("SIGTERM");
    assert.deepEqual(await server.exited, { code: 0, signal: null });
  });

  it("is awaited at a reload without a warning, however many files there are", async (t) => {
    if (!canRun(t, NEEDS.ours, NEEDS.openssl)) return;
    const folder = temporaryFolder(t, "files");
    const { cert, key } = makeCertificates(folder);
    const names = Array.from({ length: 12 }, (_, index) => join(folder, `tls-${index}`));
    for (const name of names) {
      copyFileSync(cert, `${name}.pem`);
      copyFileSync(key, `${name}.key`);
    }
    const listeners = names.map(
      (name) =>
        `[[listener]]\naddress = "127.0.0.1:0"\ntls = { cert = "${name}.pem", key = "${name}.key" }\n`,
    );
    const config = join(folder, "c.toml");
    writeFileSync(config, listeners.join(""));
    const server = await launch({ kind: "ours", flags: ["--config", config] });
    t.after(() => server.kill());
    await untilItSays(server, /serves on/);
    server.signal("SIGHUP");
    await untilItSays(server, /SIGHUP: configuration read again/);
    assert.doesNotMatch(server.stdout + server.stderr, /Warning/);
  });
});
