// Guards whose proof fails.

import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { it } from "node:test";

import { waitUntil, withWindow } from "../harness/browser.mjs";
import { Gateway } from "../harness/gateway.mjs";

const GUARD = `    - hooks:
        - name: aurora
          command: bash hooks/demo-guard.sh
          on_failure: closed
          must_deny: [{ prompt: Tell me about project aurora }]
`;

export function proofTests(suite) {
  it("a guard that stops working is shown as not proven until it works again", async () => {
    const { browser, fixture } = suite;
    const gateway = await Gateway.start(
      fixture.mock,
      (config) => `${config.replace("  BeforeModel:\n", `  BeforeModel:\n${GUARD}`)}proof: { every: 300ms }\n`,
    );
    const script = path.join(gateway.folder, "hooks/demo-guard.sh");
    const working = await readFile(script, "utf8");
    const proven = (expected) =>
      waitUntil(`the guard is ${expected ? "" : "not "}proven`, async () => {
        const rules = await gateway.get("/rules");
        return rules.find((rule) => rule.name === "aurora").proof.proven === expected;
      });
    await proven(true);
    await withWindow(browser, gateway, { user: "vera" }, async (page) => {
      await writeFile(script, "");
      await proven(false);
      await page.goto("/console/");
      const card = page.locator("ul.cards > li").filter({ hasText: "Guards that are not proven" });
      assert.match(await card.innerText(), /not proven × 1\s+aurora/);
      await card.getByRole("link", { name: "not proven" }).click();
      const row = page.locator("tbody tr").filter({ has: page.getByRole("link", { name: "aurora", exact: true }) });
      assert.match(await row.innerText(), /■ not proven/);
      assert.match(await row.innerText(), /must deny this prompt, but allowed it/);

      await writeFile(script, working);
      await proven(true);
      await page.reload();
      assert.match(await row.innerText(), /● proven/);
      assert.doesNotMatch(await row.innerText(), /not proven/);
      await page.goto("/console/");
      assert.doesNotMatch(await card.innerText(), /not proven ×/);
    });
  });
}
