// A call like that of Claude Code: filter, live tail, timeline, conversation, test and trial.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { it } from "node:test";
import { promisify } from "node:util";

import { withWindow } from "../harness/browser.mjs";
import { binary, isolatedEnvironment } from "../harness/gateway.mjs";
import { CLAUDE_SESSION } from "../fixture.mjs";

export function agentTests(suite) {
  it("a denied tool call like that of Claude Code is filtered, explained and shown as a conversation", async () => {
    const { browser, fixture: { gateway, claudeId } } = suite;
    await withWindow(browser, gateway, { user: "ivan" }, async (page) => {
      await page.goto("/console/calls");
      await page.getByLabel("Filter").fill("dialect:anthropic verdict:deny");
      await page.getByRole("button", { name: "Filter" }).click();
      await page.waitForURL(/q=dialect/);
      const rows = page.locator("a[data-row]");
      assert.equal(await rows.count(), 1);
      const row = await page.locator("table[data-rows] tbody tr").innerText();
      assert.match(row, /safe-shell\s+run_shell_command|safe-shell\s+Bash/);
      assert.match(row, /claude-cli\/2\.1/);
      await rows.click();
      await page.waitForURL(new RegExp(`/console/calls/${claudeId}`));

      const line = await gateway.lineOf("name: safe-shell");
      assert.ok((await page.locator("p.problem").first().innerText()).startsWith(`safe-shell at ${line} decided deny`));
      const facts = await page.locator("main > dl").first().innerText();
      assert.match(facts, new RegExp(CLAUDE_SESSION));
      assert.match(facts, /anthropic messages\.create/);
      assert.match(facts, /\d+ in .*\d+ out/);
      const event = page.locator("ol.timeline > li").filter({ hasText: /BeforeTool of (Bash|run_shell_command)/ });
      assert.match(await event.locator("tbody tr").filter({ hasText: "safe-shell" }).innerText(), /deny/);
      assert.match(await event.locator("tbody tr").filter({ hasText: "night-shift" }).innerText(), /not run/);

      await page.getByRole("link", { name: "Show the content" }).click();
      const agent = page.locator(".columns > section").first();
      const turns = await agent.locator(".turn").evaluateAll((all) => all.map((turn) => turn.innerText));
      assert.match(turns[0], /^system\s+You are a coding agent/);
      assert.match(turns[1], /^user\s+What is on the plan\?/);
      assert.match(turns[2], /^assistant\s+thought[^]*I will look at it\.[^]*calls Read[^]*"file_path": "plan\.png"/);
      assert.match(turns[3], /^user\s+result of Read[^]*1 image, 1 x 1[^]*image\/png, \d+ B/);
      assert.match(turns[4], /^assistant\s+There is one point/);
      assert.match(turns[5], /^user\s+Use Bash/);
      assert.match(turns[6], /^assistant/);
      await agent.locator("summary", { hasText: "thought" }).first().click();
      await agent.locator(".turn p", { hasText: "The plan is a picture." }).waitFor();
      const model = page.locator(".columns > section").last();
      assert.match(await model.innerText(), /calls Bash[^]*"command": "rm -rf build"/);
      assert.doesNotMatch(await agent.innerText(), /calls Bash/, "the agent did not receive the call");
    });
  });

  it("a test generated from that call passes, and a trial of it is denied", async () => {
    const { browser, fixture: { gateway, claudeId } } = suite;
    await withWindow(browser, gateway, { user: "olga" }, async (page) => {
      await page.goto(`/console/calls/${claudeId}`);
      await page.getByRole("link", { name: "Make a test of this" }).click();
      const yaml = await page.locator("main pre").innerText();
      const file = path.join(gateway.folder, "denial.yaml");
      await writeFile(file, yaml);
      const options = { cwd: gateway.folder, env: isolatedEnvironment(gateway.folder) };
      const { stdout } = await promisify(execFile)(binary(), ["test", file], options);
      assert.match(stdout, /^ok 1 - call/m);

      await page.goBack();
      await page.getByRole("link", { name: "Try it again" }).click();
      assert.match(await page.locator("textarea").inputValue(), /"path": "\/v1\/messages"/);
      await page.getByLabel("Run them").check();
      await page.getByRole("button", { name: "Try it" }).click();
      assert.match(await page.locator("main").innerText(), /Verdict: deny[^]*safe-shell[^]*Nothing is removed by force/);
    });
  });
}
