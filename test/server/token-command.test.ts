// Tests of `runnerbean token`: the file that it writes holds no secret and survives errors.

import assert from "node:assert/strict";
import { type SpawnSyncReturns, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, chmodSync, existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { Authenticator } from "../../src/access/authenticator.ts";
import { parseTokenFile } from "../../src/access/token-file.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { ourMain, TEST_ENV } from "../support/server/server-process.ts";

function token(path: string, args: readonly string[], input = ""): SpawnSyncReturns<string> {
  const argv = [ourMain(TEST_ENV), "token", ...args, "--token-file", path];
  return spawnSync(process.execPath, argv, { encoding: "utf8", input, env: TEST_ENV });
}

const authenticatorOf = (path: string): Authenticator =>
  new Authenticator(parseTokenFile(readFileSync(path, "utf8")).tokens);

describe("runnerbean token", () => {
  it("adds tokens and prints their secrets once, lists and removes them", async (t) => {
    const path = join(temporaryFolder(t, "tokens"), "tokens");
    const added = token(path, [
      "add",
      "mailer",
      "--role",
      "worker",
      "--tubes",
      "mail-*",
      "--expires",
      "2099-12-31",
    ]);
    assert.equal(added.status, 0, added.stderr);
    const secret = added.stdout.trim();
    assert.match(secret, /^rb1_[\w-]{43}$/);
    assert.equal(statSync(path).mode & 0o777, 0o600);
    assert.ok(!readFileSync(path, "utf8").includes(secret));
    assert.equal(authenticatorOf(path).byToken(secret, Date.now())?.name, "mailer");

    const chosen = token(path, ["add", "person", "--role", "viewer", "--password"], "a long enough secret\n");
    assert.equal(chosen.status, 0, chosen.stderr);
    const person = authenticatorOf(path).byPassword("person", "a long enough secret", Date.now());
    assert.ok(person !== undefined && "guess" in person);
    assert.deepEqual((await person.check())?.roles, ["viewer"]);

    const listed = token(path, ["list"]);
    assert.match(
      listed.stdout,
      /^name\troles\tproof\ttubes\texpires\nmailer\tworker\tsha256\tmail-\*\t2099-12-31\nperson\tviewer\tscrypt\t-\t-\n$/,
    );
    const [first = ""] = token(path, ["list", "--json"]).stdout.split("\n");
    assert.deepEqual(JSON.parse(first), {
      name: "mailer",
      roles: "worker",
      proof: "sha256",
      tubes: "mail-*",
      expires: "2099-12-31",
      over: false,
    });

    assert.equal(token(path, ["remove", "mailer"]).status, 0);
    assert.equal(authenticatorOf(path).byToken(secret, Date.now()), undefined);
    assert.equal(token(path, ["remove", "mailer"]).status, 1);
    appendFileSync(path, "# who may do what\n\n");
    for (const name of ["#", ""]) assert.equal(token(path, ["remove", name]).status, 1, name);
    assert.match(readFileSync(path, "utf8"), /# who may do what\n\n$/);
  });

  it("keeps changes by others while a person types a password", async (t) => {
    const path = join(temporaryFolder(t, "tokens"), "tokens");
    assert.equal(token(path, ["add", "leaked", "--role", "admin"]).status, 0);
    const args = ["token", "add", "person", "--role", "viewer", "--password", "--token-file", path];
    const typing = spawn(process.execPath, [ourMain(TEST_ENV), ...args], { env: TEST_ENV });
    const ended = once(typing, "exit");
    assert.equal(token(path, ["add", "other", "--role", "worker"]).status, 0);
    assert.equal(token(path, ["remove", "leaked"]).status, 0);
    typing.stdin.end("a long enough secret\n");
    assert.deepEqual(await ended, [0, null]);
    const { tokens } = parseTokenFile(readFileSync(path, "utf8"));
    assert.deepEqual(
      tokens.map(({ name }) => name),
      ["other", "person"],
    );
  });

  it("changes nothing if it refuses", (t) => {
    const path = join(temporaryFolder(t, "tokens"), "tokens");
    assert.equal(token(path, ["add", "x", "--role", "worker"]).status, 0);
    const before = readFileSync(path, "utf8");
    for (const args of [
      ["add", "x", "--role", "viewer"],
      ["add", "y", "--role", "boss"],
      ["add", "y", "--role", "worker", "--expires", "soon"],
      ["add", "y", "--role", "worker", "--password"],
      // A worker's name may come from a form: it must not smuggle in a second line.
      ["add", `y admin sha256:${"0".repeat(64)}\nz`, "--role", "worker"],
      ["add", "y", "--role", `admin sha256:${"0".repeat(64)}\nz worker`],
      ["add", "y", "--role", "worker", "--tubes", `a\nz admin sha256:${"0".repeat(64)}`],
      ["add", "y", "--role", "worker", "--expires", `2099-12-31\nz admin sha256:${"0".repeat(64)}`],
      ["add", "y", "--role", "constructor"],
      ["add", "#y", "--role", "worker"],
    ]) {
      const refused = token(path, args, "short\n");
      assert.equal(refused.status, 5, refused.stderr);
      assert.notEqual(refused.stderr, "");
    }
    writeFileSync(`${path}.new`, "");
    assert.match(token(path, ["add", "y", "--role", "worker"]).stderr, /another process is writing it/);
    assert.equal(readFileSync(path, "utf8"), before);
  });

  it("refuses a file that others can write, and a missing one", (t) => {
    const path = join(temporaryFolder(t, "tokens"), "tokens");
    assert.equal(token(path, ["list"]).status, 5);
    assert.ok(!existsSync(path));
    writeFileSync(path, "");
    chmodSync(path, 0o620);
    const refused = token(path, ["list"]);
    assert.equal(refused.status, 5);
    assert.match(refused.stderr, /can be written by users other than its owner/);
  });
});
