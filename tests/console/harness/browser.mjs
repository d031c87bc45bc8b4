// Chromium, and windows that record policy violations, script errors, dialogs and foreign requests.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

import { REPO, onCleanup, isolatedEnvironment, temporaryFolder } from "./gateway.mjs";

// The packages are installed outside of this folder.
const require = createRequire(path.join(REPO, ".scratch/console/package.json"));
const { chromium } = require("playwright-core");
export const { devices } = require("playwright-core");
export const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const ACTION_TIMEOUT = 15_000;

/** Starts Chromium. */
export async function startBrowser() {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM,
    env: isolatedEnvironment(await temporaryFolder()),
    args: ["--no-sandbox", "--disable-dev-shm-usage", "--force-color-profile=srgb"],
  });
  onCleanup(() => browser.close());
  return browser;
}

// Runs in every page before its own scripts. Its messages are added to `problems`.
function watchPage() {
  addEventListener("securitypolicyviolation", (event) => {
    console.error(`policy violation: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
  });
  Object.defineProperty(window, "__xss", { set: (value) => console.error(`a hostile script ran: ${value}`) });
}

/** A browser window: a context with a page, and its problems. */
export class Window {
  problems = [];

  /**
   * Opens a window, logged in as `user` if there is one. `options` are those of
   * playwright's contexts.
   */
  static async open(browser, gateway, { user, ...options } = {}) {
    const window = new Window();
    window.gateway = gateway;
    window.context = await browser.newContext({ baseURL: gateway.admin, colorScheme: "light", ...options });
    window.context.setDefaultTimeout(ACTION_TIMEOUT);
    window.watch();
    if (user) await window.context.addCookies([await logIn(gateway, `${user}-token`)]);
    window.page = await window.context.newPage();
    return window;
  }

  watch() {
    const { context, problems, gateway } = this;
    context.addInitScript(watchPage);
    context.on("console", (message) => {
      // Some tests expect a status such as 403.
      const isStatus = message.text().startsWith("Failed to load resource: the server responded with a status of");
      if (message.type() === "error" && !isStatus) problems.push(message.text());
    });
    context.on("weberror", (error) => problems.push(String(error.error())));
    context.on("dialog", (dialog) => {
      problems.push(`dialog: ${dialog.message()}`);
      dialog.dismiss().catch(() => {});
    });
    context.on("request", (request) => {
      const url = request.url();
      if (!url.startsWith(gateway.admin) && !url.startsWith("data:")) problems.push(`request of ${url}`);
    });
  }

  async visit(address) {
    const response = await this.page.goto(address);
    assert.ok(response, `no response of ${address}`);
    return response;
  }

  /** Closes the window. Any problem in it fails the test. */
  async close() {
    await this.context.close();
    assert.deepEqual(this.problems, []);
  }
}

/** Opens a window for a test, and closes it afterwards. */
export async function withWindow(browser, gateway, options, test) {
  const window = await Window.open(browser, gateway, options);
  try {
    await test(window.page, window);
  } catch (error) {
    await window.context.close();
    error.message += `\nproblems of the window: ${JSON.stringify(window.problems)}`;
    throw error;
  }
  await window.close();
}

async function logIn(gateway, token) {
  const response = await fetch(`${gateway.admin}/console/login`, {
    method: "POST",
    redirect: "manual",
    body: new URLSearchParams({ token }),
  });
  const [cookie] = response.headers.getSetCookie();
  assert.ok(cookie, `no login: ${response.status}`);
  const [name, value] = cookie.split(";")[0].split("=");
  return { name, value, url: gateway.admin, httpOnly: true, sameSite: "Strict" };
}

/** Waits until a condition outside of a page returns a truthy value, and returns that. */
export async function waitUntil(description, condition, timeout = ACTION_TIMEOUT) {
  const deadline = Date.now() + timeout;
  for (;;) {
    const value = await condition();
    if (value) return value;
    assert.ok(Date.now() < deadline, `not within ${timeout} ms: ${description}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}
