// Gateways with one Redis, one of which has a different config.

import assert from "node:assert/strict";
import { it } from "node:test";

import { waitUntil, withWindow } from "../harness/browser.mjs";
import { Gateway } from "../harness/gateway.mjs";
import { startRedis } from "../harness/redis.mjs";
import { violations } from "./accessibility.mjs";

const STORE = "sessions: { store: { redis: { url: { file: redis-url } } } }\n";

export function fleetTests(suite) {
  it("a lagging gateway is marked by colour and by text, and violates no rule of WCAG 2.2 AA", async () => {
    const { browser, fixture } = suite;
    const files = { "redis-url": await startRedis() };
    const first = await Gateway.start(fixture.mock, (config) => config + STORE, files);
    await waitUntil("the first gateway", async () => (await first.get("/fleet")).replicas.length === 1);
    const second = await Gateway.start(fixture.mock, (config) => `${config + STORE}ask: allow\n`, files);
    const fleet = await waitUntil("one lagging gateway", async () => {
      const status = await first.get("/fleet");
      return status.replicas.filter((replica) => replica.is_lagging).length === 1 && status;
    });
    const lagging = fleet.replicas.find((replica) => replica.is_lagging);
    for (const colorScheme of ["light", "dark"]) {
      await withWindow(browser, second, { user: "vera", colorScheme }, async (page, window) => {
        const row = page.locator("tbody tr").filter({ hasText: lagging.id });
        // A Redis that is late once is stated on the page, until it is loaded again.
        await waitUntil("the row of the lagging gateway", async () => {
          await page.goto("/console/fleet");
          return (await row.count()) === 1;
        });
        assert.match(await row.innerText(), /lagging/);
        assert.equal(await row.getAttribute("class"), "bad");
        assert.match(await page.locator("main").innerText(), /1 of 2 replicas lag behind/);
        const devtools = await window.context.newCDPSession(page);
        assert.deepEqual(await violations(devtools, `fleet, ${colorScheme}`), []);
      });
    }
  });
}
