// The list of calls with its live tail, and the timeline of one call.

import assert from "node:assert/strict";
import { it } from "node:test";

import { waitUntil, withWindow } from "../harness/browser.mjs";

export function callTests(suite) {
  it("the live tail shows the calls that match the filter, until it is paused", async () => {
    const { browser, fixture: { gateway } } = suite;
    await withWindow(browser, gateway, { user: "vera" }, async (page) => {
      await page.goto("/console/calls?verdict=deny&caller=nightly");
      const rows = page.locator("table[data-rows] tbody tr");
      const before = await rows.count();
      assert.ok(before > 0, "the fixture has a denied call");
      const live = page.getByRole("button", { name: "Live" });
      const status = page.getByRole("status");
      const scanned = page.getByText("these are all that are kept");
      assert.ok(await scanned.isVisible(), "the page has all calls");
      await live.click();
      await status.filter({ hasText: "live" }).waitFor();

      await gateway.call("nightly", "an ordinary question");
      await gateway.call("ci", "project aurora");
      const { id } = await gateway.call("nightly", "more of project aurora");
      await page.locator("tr.new").first().waitFor();
      assert.equal(await rows.count(), before + 1);
      assert.equal(await scanned.isVisible(), false, "the live tail has added a call");
      const row = page.locator("tr.new");
      const address = await row.getByRole("link").getAttribute("href");
      assert.equal(address, `/console/calls/${id}?verdict=deny&caller=nightly`);
      assert.match(await row.innerText(), /deny\s+no-aurora\s+nightly/);
      assert.equal(await status.innerText(), "live, 1 new");

      await live.click();
      assert.equal(await live.getAttribute("aria-pressed"), "false");
      const later = await gateway.call("nightly", "again project aurora");
      await waitUntil("the call is listed", async () => {
        const { calls } = await gateway.get(`/calls?request=${later.id}`);
        return calls.length === 1;
      });
      assert.equal(await rows.count(), before + 1);
      await page.reload();
      assert.equal(await rows.count(), before + 2);
      const fromTail = await row.or(rows.nth(1)).first().innerText();
      assert.match(fromTail, /deny\s+no-aurora\s+nightly/, "the page has the same row as the live tail");
    });
  });

  it("the timeline of a denied tool call of gemini-cli lists every policy and hook", async () => {
    const { browser, fixture } = suite;
    const { gateway, deniedId } = fixture;
    assert.match(fixture.geminiOutput, /Nothing is removed by force/, "gemini-cli received the reason");
    await withWindow(browser, gateway, { user: "ivan" }, async (page) => {
      await page.goto(`/console/calls/${deniedId}`);
      const event = page.locator("ol.timeline > li").filter({ hasText: "BeforeTool of run_shell_command" });
      const rows = event.locator("tbody tr");
      const texts = await rows.evaluateAll((all) => all.map((row) => row.innerText.replaceAll(/\s+/g, " ")));
      const row = (name) => texts.find((text) => text.startsWith(name)) ?? assert.fail(`no ${name} in ${texts}`);

      const line = await gateway.lineOf("name: safe-shell");
      assert.ok(row("safe-shell").includes(line), `${row("safe-shell")} lacks ${line}`);
      assert.match(row("safe-shell"), /deny.*Nothing is removed by force/);
      assert.match(row("lock-files"), /not run/);
      assert.match(row("night-shift"), /not run/);
      row("licence-scan");
      assert.equal(new Set(texts).size, texts.length, "duplicate rows");
      assert.ok((await page.locator("p.problem").first().innerText()).includes(`safe-shell at ${line} decided deny`));

      const steps = await page.locator("ol.timeline h3").allInnerTexts();
      assert.ok(steps[0].startsWith("Agent sent"), steps.join());
      assert.ok(steps.some((step) => step.includes("round 2")), "no second round with the model");
    });
    await withWindow(browser, gateway, { user: "vera" }, async (page) => {
      await page.goto(`/console/calls/${deniedId}`);
      const text = await page.locator("main").innerText();
      assert.match(text, /safe-shell[^]*sha256:/);
      assert.doesNotMatch(text, /removed by force/, "a viewer sees no reason of a hook");
    });
  });
}
