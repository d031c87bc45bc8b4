// Login, logout, and cross-site request forgery.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { it } from "node:test";

import { Window, waitUntil, withWindow } from "../harness/browser.mjs";
import { Gateway, onCleanup } from "../harness/gateway.mjs";

const submit = (page) => page.getByRole("button", { name: "Log in" }).click();

export function accessTests(suite) {
  it("a wrong token is refused, and the right one leads to the requested page", async () => {
    const { browser, fixture: { gateway } } = suite;
    await withWindow(browser, gateway, {}, async (page, window) => {
      await page.goto("/console/calls?verdict=deny");
      assert.match(page.url(), /\/console\/login\?next=/);
      assert.equal(await page.locator(":focus").getAttribute("id"), "token", "the field has the focus");

      await page.getByLabel("Admin token").fill("wrong-token");
      await submit(page);
      assert.equal(await page.getByRole("alert").innerText(), "No user has this token.");
      assert.deepEqual(await window.context.cookies(), []);

      await page.getByLabel("Admin token").fill("vera-token");
      await submit(page);
      await page.waitForURL("**/console/calls?verdict=deny");
      const [cookie] = await window.context.cookies();
      // The name has the port of the config, which is 0.
      assert.deepEqual([cookie.name, cookie.httpOnly, cookie.sameSite, cookie.path], ["hookgate-0", true, "Strict", "/"]);
      assert.equal(await page.evaluate(() => document.cookie), "", "no script can read the cookie");
    });
  });

  it("a logout ends the session, even if its cookie was kept", async () => {
    const { browser, fixture: { gateway } } = suite;
    await withWindow(browser, gateway, { user: "vera" }, async (page, window) => {
      await page.goto("/console/");
      const kept = await window.context.cookies();
      await page.getByRole("button", { name: "Log out" }).click();
      await page.waitForURL("**/console/login");
      await page.goBack();
      assert.match(page.url(), /\/console\/login/, "the previous page is not cached");
      await window.context.addCookies(kept);
      await page.goto("/console/");
      assert.match(page.url(), /\/console\/login\?next=/);
    });
  });

  it("an expired login leads to the login page, and a new login back", async () => {
    const { browser, fixture: { mock } } = suite;
    const gateway = await Gateway.start(mock, (config) =>
      config.replace("  users:\n", "  login: { lifetime: 2s, idle: 2s }\n  users:\n"),
    );
    await withWindow(browser, gateway, { user: "vera" }, async (page) => {
      await page.goto("/console/rules");
      assert.equal(await page.locator("h1").innerText(), "Policies and hooks");
      await waitUntil("the login expires", async () => {
        await page.reload();
        return page.url().includes("/console/login");
      });
      await page.getByLabel("Admin token").fill("vera-token");
      await submit(page);
      await page.waitForURL("**/console/rules");
    });
  });

  it("an operator compares the revisions of the config and reloads it", async () => {
    const { browser, fixture: { gateway } } = suite;
    await gateway.edit((config) => config.replace("borealis", "borealis|calypso"));
    const revisions = async () => (await gateway.get("/config")).revisions;
    await waitUntil("the changed file is loaded", async () => (await revisions()).length === 3);
    await withWindow(browser, gateway, { user: "olga" }, async (page) => {
      await page.goto("/console/config");
      await page.getByRole("button", { name: "Show the difference" }).click();
      assert.match(await page.locator(".diff ins").innerText(), /calypso/);
      await page.getByRole("button", { name: "Reload the config files" }).click();
      await page.getByRole("status").filter({ hasText: "Nothing has changed" }).waitFor();
    });
    assert.equal((await revisions()).length, 3, "the same config is no new revision");
  });

  it("an operator promotes a kept revision and rolls back, and a viewer cannot", async () => {
    const { browser, fixture: { mock } } = suite;
    const gateway = await Gateway.start(mock);
    const version = async () => (await gateway.get("/config")).version;
    const first = await version();
    await gateway.edit((config) => config.replace("(?i)project aurora", "(?i)project borealis"));
    await waitUntil("the changed file is loaded", async () => (await version()) !== first);
    const second = await version();
    const rollBack = (page) => page.getByRole("button", { name: "Roll back to" });
    await withWindow(browser, gateway, { user: "vera" }, async (page) => {
      await page.goto("/console/changes");
      await page.getByText("Promoting and rolling back need the role").waitFor();
      assert.equal(await rollBack(page).count(), 0);
    });
    await withWindow(browser, gateway, { user: "olga" }, async (page) => {
      await page.goto("/console/changes");
      await page.getByRole("button", { name: `Promote ${first}` }).click();
      await page.getByRole("status").filter({ hasText: "This revision was promoted" }).waitFor();
      assert.equal(await version(), first);
      await rollBack(page).click();
      await page.getByRole("status").filter({ hasText: "The revision is in use" }).waitFor();
      assert.equal(await version(), second);
    });
  });

  it("a link of another site leads to the page of a user who is logged in", async () => {
    const { browser, fixture: { gateway } } = suite;
    const window = await Window.open(browser, gateway, { user: "vera" });
    const { page } = window;
    // The same site, to which the browser sends the cookie, and another site.
    for (const host of ["127.0.0.1", "localhost"]) {
      await page.goto(await serveForeignPage(gateway.admin, host, ""));
      await page.getByRole("link", { name: "the rules" }).click();
      await page.getByRole("heading", { name: "Link", level: 1 }).waitFor();
      await page.getByRole("link", { name: "Continue to /console/rules" }).click();
      await page.getByRole("heading", { name: "Policies and hooks", level: 1 }).waitFor();
    }
    await window.context.close();
  });

  it("a page of another origin can neither change, read nor frame anything", async () => {
    const { browser, fixture: { gateway } } = suite;
    const before = (await gateway.get("/config")).revisions.length;
    const window = await Window.open(browser, gateway, { user: "olga" });
    await window.visit("/console/config");
    const csrf = await window.page.locator('input[name="csrf"]').first().inputValue();
    // The same site, to which the browser sends the cookie, and another site.
    for (const host of ["127.0.0.1", "localhost"]) {
      const foreign = await serveForeignPage(gateway.admin, host, csrf);
      const answer = window.page.waitForResponse((response) => response.request().method() === "POST");
      await window.page.goto(foreign);
      await window.page.evaluate(() => document.getElementById("forged").submit());
      assert.equal((await answer).status(), 403, host);
      await window.page.waitForURL("**/console/config/reload");
      await window.page.goto(foreign);
      const read = window.page.evaluate(async (url) => {
        const options = { credentials: "include" };
        return fetch(url, options).then((response) => response.text(), (error) => error.name);
      }, `${gateway.admin}/console/config`);
      assert.equal(await read, "TypeError", host);
      const frame = window.page.frames().find((found) => found !== window.page.mainFrame());
      assert.ok(!(await frame.content()).includes("Effective config"), host);
    }
    await window.context.close();
    assert.equal((await gateway.get("/config")).revisions.length, before);
  });
}

async function serveForeignPage(admin, host, csrf) {
  const html = `<!doctype html><title>foreign</title>
    <form id="forged" method="post" action="${admin}/console/config/reload"><input name="csrf" value="${csrf}"></form>
    <a href="${admin}/console/rules">the rules</a>
    <iframe src="${admin}/console/config"></iframe>`;
  const server = createServer((_request, response) => {
    response.setHeader("content-type", "text/html");
    response.end(html);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  onCleanup(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://${host}:${server.address().port}/`;
}
