// Gateways with one Redis, one of which has a different config.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import path from "node:path";
import { it } from "node:test";

import { waitUntil, withWindow } from "../harness/browser.mjs";
import { Gateway, onCleanup, temporaryFolder } from "../harness/gateway.mjs";
import { violations } from "./accessibility.mjs";

const STORE = "sessions: { store: { redis: { url: { file: redis-url } } } }\n";

export function fleetTests(suite) {
  it("a lagging gateway is marked by colour and by text, and violates no rule of WCAG 2.2 AA", async () => {
    const { browser, fixture } = suite;
    const url = await startRedis();
    const first = await startGateway(fixture.mock, url, (config) => config + STORE);
    await waitUntil("the first gateway", async () => (await first.get("/fleet")).replicas.length === 1);
    const second = await startGateway(fixture.mock, url, (config) => `${config + STORE}ask: allow\n`);
    const fleet = await waitUntil("one lagging gateway", async () => {
      const status = await first.get("/fleet");
      return status.replicas.filter((replica) => replica.is_lagging).length === 1 && status;
    });
    const lagging = fleet.replicas.find((replica) => replica.is_lagging);
    for (const colorScheme of ["light", "dark"]) {
      await withWindow(browser, second, { user: "vera", colorScheme }, async (page, window) => {
        await page.goto("/console/fleet");
        const row = page.locator("tbody tr").filter({ hasText: lagging.id });
        assert.match(await row.innerText(), /lagging/);
        assert.equal(await row.getAttribute("class"), "bad");
        assert.match(await page.locator("main").innerText(), /1 of 2 replicas lag behind/);
        const devtools = await window.context.newCDPSession(page);
        assert.deepEqual(await violations(devtools, `fleet, ${colorScheme}`), []);
      });
    }
  });
}

async function startGateway(mock, url, change) {
  // The folder of a gateway exists only after its start, so the file is in another folder.
  const folder = await temporaryFolder();
  const file = path.join(folder, "redis-url");
  await writeFile(file, url);
  return Gateway.start(mock, (config) => change(config).replace("file: redis-url", `file: ${file}`));
}

/** Starts a Redis without persistence. Returns its URL. */
async function startRedis() {
  const port = await freePort();
  const options = ["--bind", "127.0.0.1", "--port", String(port), "--save", ""];
  const child = spawn("redis-server", options, { stdio: ["ignore", "pipe", "ignore"] });
  const ended = new Promise((resolve) => child.on("exit", resolve));
  onCleanup(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  let log = "";
  child.stdout.on("data", (data) => (log += data));
  await waitUntil("Redis", async () => log.includes("Ready to accept connections"));
  return `redis://127.0.0.1:${port}`;
}

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}
