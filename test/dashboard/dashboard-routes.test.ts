// Tests of the dashboard's defences: requests and frames of other sites, security headers, paths.

import assert from "node:assert/strict";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, describe, it } from "node:test";
import { gunzipSync } from "node:zlib";
import type { Browser } from "playwright-core";
import { missing } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { CHROMIUM_NEED, openBrowser, type Served, serve } from "./browser.ts";

/** An answer as it comes over the wire. */
function get(url: string, encodings: string): Promise<{ encoding: string | undefined; bytes: Buffer }> {
  return new Promise((resolve, reject) => {
    request(url, { headers: { "accept-encoding": encodings } }, (answer) => {
      const chunks: Buffer[] = [];
      answer.on("error", reject);
      answer.on("data", (chunk: Buffer) => chunks.push(chunk));
      answer.on("end", () =>
        resolve({ encoding: answer.headers["content-encoding"], bytes: Buffer.concat(chunks) }),
      );
    })
      .on("error", reject)
      .end();
  });
}

/**
 * Script of another site's page: changes by script and by form, reads, and a frame around the
 * dashboard.
 */
const EVIL_PAGE = `(async () => {
  const post = { method: "POST", body: "x", mode: "no-cors" };
  await fetch("URL/v1/tubes/evil-a/jobs", post);
  await fetch("URL/v1/tubes/mail-eu/kick", post);
  const read = await fetch("URL/v1/tubes").then(() => "read", () => "refused");
  document.body.innerHTML = '<iframe name=f></iframe><form method=post target=f action="URL/v1/tubes/evil-b/jobs"><input name=a value=b></form><iframe src="URL/"></iframe>';
  const loaded = [...document.querySelectorAll("iframe")].map((frame) => new Promise((resolve) => frame.addEventListener("load", resolve)));
  document.forms[0].submit();
  await Promise.all(loaded);
  return read;
})()`;

describe("dashboard", { skip: missing(CHROMIUM_NEED) ?? false }, () => {
  let served: Served;
  let browser: Browser;

  before(async () => {
    // One after the other: what has begun is ended by `after`, also where the next fails.
    browser = await openBrowser();
    served = await serve(["-b", temporaryFolder({ after }, "dashboard-security")]);
  });
  after(async () => {
    await browser?.close();
    await served?.server.kill();
  });

  it("shows bodies and names as text, whatever they contain", async () => {
    const client = await WireClient.connect({ port: served.port, host: "127.0.0.1" });
    await client.ask("use (odd);$_/+.-");
    const body = '<img src=x onerror="document.title=1"></script><script>document.title=2</script>\u202e';
    const bytes = Buffer.from(body);
    client.send(`put 0 0 60 ${bytes.length}\r\n`);
    client.send(bytes);
    const { line } = await client.ask("");
    const id = line.split(" ")[1]!;
    const page = await browser.newPage();
    await page.goto(`${served.url}/#/jobs/${id}`);
    await page.locator("pre.body").waitFor();
    assert.equal(await page.locator("pre.body").textContent(), body);
    assert.equal(await page.locator("pre.body img, pre.body script").count(), 0);
    assert.match(await page.title(), /^Job /);
    const { line: binary } = await client.ask(`put 0 0 60 4\r\n\xff\xfe\x00\x80`);
    await page.goto(`${served.url}/#/jobs/${binary.split(" ")[1]}`);
    await page.getByText("Bytes that are not text").waitFor();
    client.close();
    await page.close();
  });

  it("refuses requests and frames of other sites", async () => {
    const evil = createServer((_request, answer) =>
      answer.setHeader("content-type", "text/html").end("<p>evil"),
    );
    await new Promise<void>((resolve) => evil.listen(0, "127.0.0.1", resolve));
    const page = await browser.newPage();
    try {
      await page.goto(`http://localhost:${(evil.address() as AddressInfo).port}/`);
      const seen = await page.evaluate(EVIL_PAGE.replaceAll("URL", served.url));
      assert.equal(seen, "refused");
      const framed = await Promise.all(page.frames().map((frame) => frame.locator("nav").count()));
      assert.ok(framed.every((count) => count === 0));
    } finally {
      await page.close();
      evil.close();
    }
    const { items } = (await (await fetch(`${served.url}/v1/tubes?match=evil-*&fresh=true`)).json()) as {
      items: unknown[];
    };
    assert.deepEqual(items, []);
  });

  it("sends its files with security headers, and refuses other paths", async () => {
    const index = await fetch(served.url);
    assert.match(index.headers.get("content-security-policy")!, /default-src 'none'; script-src 'self'/);
    assert.match(index.headers.get("content-security-policy")!, /frame-ancestors 'none'/);
    assert.doesNotMatch(index.headers.get("content-security-policy")!, /unsafe/);
    assert.match(
      index.headers.get("content-security-policy")!,
      /require-trusted-types-for 'script'; trusted-types lit-html$/,
    );
    assert.equal(index.headers.get("x-frame-options"), "DENY");
    const script = await fetch(`${served.url}/assets/app.js`);
    const etag = script.headers.get("etag")!;
    assert.equal(
      (await fetch(`${served.url}/assets/app.js`, { headers: { "if-none-match": etag } })).status,
      304,
    );
    for (const path of [
      "/assets/nope.js",
      "/assets/..%2f..%2fpackage.json",
      "/v1/events?get=/v1/nope",
      "/v1/events?get=/v1/tubes?sort=nope",
      "/v1/events?get=/v1/jobs/nope",
      "/v1/events?get=/v1/connections?state=nope",
    ])
      assert.ok([400, 404].includes((await fetch(`${served.url}${path}`)).status), path);
    // fetch would unpack it, but the bytes on the wire count.
    const zipped = await get(`${served.url}/assets/pages.js`, "gzip");
    assert.equal(zipped.encoding, "gzip");
    const plain = await get(`${served.url}/assets/pages.js`, "identity");
    assert.equal(plain.encoding, undefined);
    assert.deepEqual(gunzipSync(zipped.bytes), plain.bytes);
    assert.ok(plain.bytes.includes("Needs attention"));
    assert.ok(zipped.bytes.length < plain.bytes.length / 2);
  });
});
