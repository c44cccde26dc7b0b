// Tests of the group page in a real Chromium, on two real servers and a log server.

import assert from "node:assert/strict";
import { test } from "node:test";
import { parseGroupUrl } from "../../src/replica/group-url.ts";
import { JetStreamLog } from "../../src/replica/jetstream-log.ts";
import { freePort } from "../support/machine/free-port.ts";
import { missing } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { missingNats, NatsCluster } from "../support/server/nats-cluster.ts";
import { GroupServer, until } from "../support/server/server-group.ts";
import { CHROMIUM_NEED, openBrowser } from "./browser.ts";
import { assertAccessible, openPage } from "./watched-page.ts";

interface Group {
  readonly name: string;
  readonly role: string;
  readonly mayServe: boolean;
  readonly standbys: number;
  readonly members: readonly { role: string; address: string; isThis: boolean; isComplete: boolean }[];
}

const skip = missing(CHROMIUM_NEED) ?? missingNats() ?? false;

test("the page of a group shows leader and followers on each server, and follows a change", {
  skip,
}, async (t) => {
  const cluster = await NatsCluster.start(t, 1);
  const url = cluster.url("paged");
  const log = await JetStreamLog.connect(parseGroupUrl(url), "test", true);
  t.after(() => log.close());
  await until("the stream is made", async () => {
    await log.create({ replicas: 1, maxBytes: 2 ** 26, groupId: "test-group", seed: 0 });
    return true;
  });
  /** The address of its HTTP side, too. */
  const start = async (): Promise<{ server: GroupServer; at: string }> => {
    const at = `127.0.0.1:${await freePort()}`;
    const flags = ["--http", at, "--replicate", url];
    const server = new GroupServer(await freePort(), temporaryFolder(t, "paged"), flags);
    t.after(() => server.end());
    server.start();
    return { server, at };
  };
  const groupOf = async (at: string): Promise<Group> =>
    (await (await fetch(`http://${at}/v1/group`)).json()) as Group;
  const untilIt = (what: string, at: string, is: (group: Group) => boolean): Promise<Group> =>
    until(what, async () => {
      const group = await groupOf(at);
      return is(group) ? group : undefined;
    });

  const first = await start();
  const alone = await untilIt("it leads, and knows itself", first.at, ({ role, members }) => {
    return role === "primary" && members[0]?.role === "primary";
  });
  assert.deepEqual([alone.name, alone.mayServe, alone.standbys], ["paged", true, 0]);
  assert.equal(alone.members[0]!.isThis, true);

  const browser = await openBrowser();
  t.after(() => browser.close());
  const wrongs: string[] = [];
  const page = await openPage(browser, `http://${first.at}/#/group`, wrongs);
  await page.getByText("No standby follows").waitFor();
  await page.getByRole("link", { name: "Group" }).waitFor();

  const second = await start();
  await page.getByRole("row", { name: second.server.address }).getByText("follows").waitFor();
  await page.getByText("No standby follows").waitFor({ state: "detached" });
  const both = await untilIt("both are seen from the standby", second.at, ({ members }) => {
    return members.length === 2 && members.every(({ isComplete, role }) => isComplete || role === "primary");
  });
  assert.equal(both.role, "standby");
  assert.equal(both.mayServe, false);
  assert.deepEqual(
    both.members.find(({ isThis }) => isThis),
    { ...both.members.find(({ address }) => address === second.server.address) },
  );
  await assertAccessible(page, "1280 px, light");
  await page.close();

  const small = { width: 360, theme: "dark" } as const;
  // It refuses lists of jobs.
  const left = await openPage(browser, `http://${second.at}/#/group`, wrongs, small, /status of 503/);
  await left.getByRole("row", { name: first.server.address }).getByText("has the lead").waitFor();
  // A standby knows nothing of the jobs, which is not the same as that there are none.
  for (const hash of ["#/", "#/tubes", "#/tubes/default", "#/jobs/1"]) {
    await left.goto(`http://${second.at}/${hash}`);
    await left.getByText("serves no jobs now: another server of the group has the lead.").waitFor();
    await assertAccessible(left, `${hash} of a standby`);
  }
  await left.getByRole("link", { name: "State of its group" }).click();
  await left.getByRole("row", { name: first.server.address }).getByText("has the lead").waitFor();
  await assertAccessible(left, "360 px, dark");
  await first.server.end("SIGTERM");
  await left.getByText("this server has the lead").waitFor();
  await left.getByText("No standby follows").waitFor();
  assert.deepEqual(wrongs, []);
});
