// Tests of listeners with authentication: `auth`, roles, tubes, allow-lists, and changes without a
// restart.

import assert from "node:assert/strict";
import { statSync, writeFileSync } from "node:fs";
import { connect as connectSocket } from "node:net";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { GuardedServer, newToken } from "../support/server/guarded-server.ts";
import { untilItSays } from "../support/server/until-it-says.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { skipVariant } from "../support/whole.ts";

const worker = newToken("mailer", "worker");
const limited = newToken("limited", "worker tubes=mail-*");
const producer = newToken("shop", "producer");
const viewer = newToken("eyes", "viewer");
const mover = newToken("mover", "operator tubes=mail-*");
const gone = newToken("gone", "worker");
const over = newToken("over", "admin expires=2020-01-01");
const TOKENS = [worker, limited, producer, viewer, gone, over, mover].map(({ line }) => line);

/** Each shape of the server is tried with the same file. */
const SHAPES = [[], ["--shards", "3", "--acceptors", "2", "--transport", "libuv"]];
for (const [index, flags] of SHAPES.entries()) {
  describe(`auth ${flags.join(" ")}`, { skip: skipVariant(index, SHAPES.length) }, () => {
    let guarded: GuardedServer;
    const folder = temporaryFolder({ after }, "auth");
    const socketPath = join(folder, "socket");

    before(async () => {
      guarded = await GuardedServer.start(
        folder,
        TOKENS.join(""),
        3,
        ([token, closed, open]) => `max-job-size = 100
[[listener]]
address = "127.0.0.1:${token}"
auth = "token"
[[listener]]
address = "127.0.0.1:${closed}"
allow = ["192.0.2.0/24"]
[[listener]]
address = "127.0.0.1:${open}"
allow = ["127.0.0.0/8"]
[[listener]]
address = "unix:${socketPath}"
mode = "0660"
auth = "token"
`,
        flags,
      );
    });
    after(() => guarded.server.stop());

    const connect = (listener = 0): Promise<WireClient> =>
      WireClient.connect({ port: guarded.ports[listener]!, host: "127.0.0.1" });
    const signIn = async (secret: string): Promise<WireClient> => {
      const client = await connect();
      assert.equal((await client.ask(`auth ${secret}`)).line, "AUTHENTICATED");
      return client;
    };
    const lineOf = async (client: WireClient, command: string): Promise<string> =>
      (await client.ask(command)).line;

    it("is an unknown command on listeners that don't demand it", async () => {
      const plain = await WireClient.connect(guarded.server.address);
      assert.equal(await lineOf(plain, `auth ${worker.secret}`), "UNKNOWN_COMMAND");
      assert.equal(await lineOf(plain, "auth"), "UNKNOWN_COMMAND");
      assert.match((await plain.put("x")).line, /^INSERTED/);
      plain.close();
      const open = await connect(2);
      assert.equal(await lineOf(open, "auth x"), "UNKNOWN_COMMAND");
      assert.equal(await lineOf(open, "use a"), "USING a");
      open.close();
    });

    it("accepts a token, also with commands right behind it", async () => {
      const client = await connect();
      client.send(`auth ${worker.secret}\r\nuse auth-a\r\nput 0 0 60 1\r\na\r\nwatch auth-a\r\nreserve\r\n`);
      const replies: string[] = [];
      for (let reply = 0; reply < 5; reply++)
        replies.push((await client.readReply()).line.replace(/\d+/, "N"));
      assert.deepEqual(replies, [
        "AUTHENTICATED",
        "USING auth-a",
        "INSERTED N",
        "WATCHING N",
        "RESERVED N 1",
      ]);
      client.close();
    });

    for (const [name, bytes] of [
      ["another command", "use a\r\nuse b\r\n"],
      ["a put with its body", "put 0 0 60 1\r\na\r\n"],
      ["a wrong token", "auth rb1_wrong\r\nuse a\r\n"],
      ["a token whose days are over", `auth ${over.secret}\r\n`],
      ["no token", "auth \r\n"],
      ["two words", "auth a b\r\n"],
      ["nonsense", "\x00\x01\r\n"],
      ["an endless line", "x".repeat(300)],
      ["HTTP", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"],
    ] as const) {
      it(`answers ${name} with UNAUTHORIZED and closes`, async () => {
        const client = await connect();
        client.send(bytes);
        if (name === "an endless line") client.send("\r\n");
        assert.equal((await client.readReply()).line, "UNAUTHORIZED");
        await client.expectEnd();
        client.close();
      });
    }

    it("lets an unauthenticated client quit", async () => {
      const client = await connect();
      client.send("quit\r\n");
      await client.expectEnd();
      client.close();
    });

    it("forbids commands beyond the role; drops the body and keeps the connection", async () => {
      const eyes = await signIn(viewer.secret);
      eyes.send("put 0 0 60 8\r\ndelete 1\r\nlist-tube-used\r\n");
      assert.equal((await eyes.readReply()).line, "UNAUTHORIZED");
      assert.equal((await eyes.readReply()).line, "USING default");
      for (const command of [
        "reserve-with-timeout 0",
        "delete 1",
        "kick 1",
        "pause-tube default 1",
        "touch 1",
      ])
        assert.equal(await lineOf(eyes, command), "UNAUTHORIZED", command);
      for (const command of ["stats", "list-tubes", "stats-tube default"])
        assert.match(await lineOf(eyes, command), /^OK/, command);
      // Malformed lines and oversized bodies get the usual replies.
      assert.equal(await lineOf(eyes, "delete x"), "BAD_FORMAT");
      assert.equal(await lineOf(eyes, "nonsense"), "UNKNOWN_COMMAND");
      assert.equal(await lineOf(eyes, `put 0 0 60 101\r\n${"x".repeat(101)}`), "JOB_TOO_BIG");
      eyes.close();

      const shop = await signIn(producer.secret);
      assert.match((await shop.put("x")).line, /^INSERTED/);
      for (const command of ["reserve", "peek-ready", "stats", "kick-job 1"])
        assert.equal(await lineOf(shop, command), "UNAUTHORIZED", command);
      shop.close();
    });

    it("keeps replies in order when a forbidden command follows one in flight", async () => {
      const client = await signIn(worker.secret);
      client.send("use auth-order\r\n");
      await client.readReply();
      client.send("put 0 0 60 1\r\na\r\nkick 1\r\nput 0 0 60 1\r\nb\r\npeek-ready\r\nlist-tube-used\r\n");
      const lines: string[] = [];
      for (let reply = 0; reply < 5; reply++) lines.push((await client.readReply()).line.replace(/\d+/, "N"));
      assert.deepEqual(lines, [
        "INSERTED N",
        "UNAUTHORIZED",
        "INSERTED N",
        "UNAUTHORIZED",
        "USING auth-order",
      ]);
      client.close();
    });

    it("keeps a token with tubes within its tubes, by name and by id", async () => {
      const other = await signIn(worker.secret);
      assert.equal(await lineOf(other, "use mail-1"), "USING mail-1");
      assert.match((await other.put("mine")).line, /^INSERTED/);
      assert.equal(await lineOf(other, "use secret"), "USING secret");
      const secretId = (await other.put("theirs")).line.split(" ")[1]!;

      const client = await signIn(limited.secret);
      for (const command of ["use secret", "watch secret", "stats-tube secret", "stats", "list-tubes"])
        assert.equal(await lineOf(client, command), "UNAUTHORIZED", command);
      for (const verb of ["delete", "stats-job", "reserve-job", "touch", "release"]) {
        const command = `${verb} ${secretId}${verb === "release" ? " 0 0" : ""}`;
        assert.equal(await lineOf(client, command), "UNAUTHORIZED", command);
      }
      assert.equal(await lineOf(client, "put-in-tube secret 0 0 60 1\r\nx"), "UNAUTHORIZED");
      assert.equal((await client.put("into default")).line, "UNAUTHORIZED");
      for (const command of ["reserve-batch 5 0", `delete-batch ${secretId}`])
        assert.equal(await lineOf(client, command), "UNAUTHORIZED", command);
      assert.equal(await lineOf(client, "watch mail-1"), "WATCHING 2");
      assert.equal(await lineOf(client, "reserve-with-timeout 0"), "UNAUTHORIZED", "it watches default, too");
      assert.equal(await lineOf(client, "ignore default"), "WATCHING 1");
      const { line, body } = await client.ask("reserve");
      assert.equal(body?.toString(), "mine");
      const id = line.split(" ")[1]!;
      assert.match(await lineOf(client, `stats-job ${id}`), /^OK/);
      assert.equal(await lineOf(client, `touch ${id}`), "TOUCHED");
      assert.equal(await lineOf(client, `delete ${id}`), "DELETED");
      assert.equal(await lineOf(client, `delete ${id}`), "UNAUTHORIZED");
      assert.equal(
        await lineOf(client, "put-in-tube mail-2 0 0 60 1\r\nx"),
        (await lastInserted(other)) ?? "",
      );
      other.close();
      client.close();
    });

    /** Puts a job, and returns the reply. */
    async function lastInserted(client: WireClient): Promise<string> {
      const { line } = await client.put("counter");
      return `INSERTED ${Number(line.split(" ")[1]) - 1}`;
    }

    it("forbids an operator of some tubes to move jobs out of them", async () => {
      const client = await signIn(mover.secret);
      assert.match(await lineOf(client, "put-in-tube mail-3 0 0 60 1\r\nx"), /^INSERTED/);
      assert.match(await lineOf(client, "list-jobs mail-3"), /^OK/);
      for (const command of [
        "move-jobs mail-3 secret",
        "move-jobs secret mail-3",
        "list-jobs secret",
        "list-jobs *",
        "clear-tube secret",
      ])
        assert.equal(await lineOf(client, command), "UNAUTHORIZED", command);
      assert.equal(await lineOf(client, "clear-tube mail-3"), "CLEARED 1");
      client.close();
    });

    it("serves on a unix socket with its mode, and demands a token there too", async () => {
      assert.equal(statSync(socketPath).mode & 0o777, 0o660);
      const client = await WireClient.connect({ path: socketPath });
      assert.equal(await lineOf(client, `auth ${worker.secret}`), "AUTHENTICATED");
      client.close();
    });

    it("executes nothing of connections that are reset before it knows where they come from", async () => {
      const reset = (): Promise<void> =>
        new Promise((resolve) => {
          const socket = connectSocket(guarded.ports[1]!, "127.0.0.1", () => {
            socket.write("use outside\r\nput 0 0 60 1\r\nx\r\n", () => socket.resetAndDestroy());
          });
          socket.on("error", () => {});
          socket.on("close", () => resolve());
        });
      for (let round = 0; round < 10; round++) await Promise.all(Array.from({ length: 50 }, reset));
      const open = await connect(2);
      assert.equal(await lineOf(open, "stats-tube outside"), "NOT_FOUND");
      open.close();
    });

    it("closes connections outside the allow-list at once, and logs it", async () => {
      const client = await connect(1);
      await client.expectEnd();
      client.close();
      await untilItSays(guarded.server, /127\.0\.0\.1 is not in the allow-list of 127\.0\.0\.1/);
    });

    it("reloads tokens at SIGHUP: accepts new ones, closes connections of removed ones", async () => {
      const stays = await signIn(worker.secret);
      const leaves = await signIn(gone.secret);
      const waits = await signIn(gone.secret);
      assert.equal(await lineOf(waits, "watch waited-for"), "WATCHING 2");
      assert.equal(await lineOf(waits, "ignore default"), "WATCHING 1");
      waits.send("reserve\r\n");
      const fresh = newToken("fresh", "viewer");
      const lines = TOKENS.filter((line) => line !== gone.line);
      writeFileSync(guarded.tokenFile, `${lines.join("")}nonsense\n`);
      guarded.server.signal("SIGHUP");
      await untilItSays(guarded.server, /everything stays as it was.*tokens:7/);
      assert.equal(await lineOf(leaves, "use a"), "USING a");

      writeFileSync(guarded.tokenFile, lines.join("") + fresh.line);
      guarded.server.signal("SIGHUP");
      await untilItSays(guarded.server, /configuration read again/);
      for (const client of [leaves, waits]) {
        assert.equal((await client.readReply()).line, "UNAUTHORIZED");
        await client.expectEnd();
      }
      assert.match(await lineOf(stays, "put-in-tube waited-for 0 0 60 1\r\nx"), /^INSERTED/);
      const { body } = await stays.ask("stats-tube waited-for");
      assert.match(body!.toString(), /current-jobs-ready: 1\n/);
      assert.equal(await lineOf(stays, "use a"), "USING a");
      (await signIn(fresh.secret)).close();
      for (const client of [stays, leaves, waits]) client.close();
    });

    it("never logs a secret", () => {
      for (const { secret } of [worker, limited, producer, viewer, gone, over])
        assert.ok(!(guarded.server.stderr + guarded.server.stdout).includes(secret));
      assert.ok(!guarded.server.stderr.includes("rb1_wrong"));
    });

    it("takes a valid token however many wrong ones came from its address", async () => {
      for (let attempt = 0; attempt < 40; attempt++) {
        const client = await connect();
        assert.equal((await client.ask("auth wrong")).line, "UNAUTHORIZED");
        client.close();
      }
      const valid = await connect();
      assert.equal((await valid.ask(`auth ${worker.secret}`)).line, "AUTHENTICATED");
      valid.close();
    });
  });
}
